//! Artifacts that say who wrote them, and show whether they are whole.

use frazil_core::Version;
use frazil_cuda::{Artifact, ImageKind, Key, Resources};

/// Bytes of the least image: about a large kernel.
const IMAGE_BYTES: usize = 200_000;

/// Who wrote an artifact and when. Its length, its image, its symbol and its resources follow from
/// these, so that a mixture of two is told from either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Written {
    pub(crate) key: u8,
    pub(crate) writer: u32,
    pub(crate) generation: u32,
}

impl Written {
    pub(crate) fn artifact(self) -> Artifact {
        let Self { writer, generation, .. } = self;
        let seed = u64::from(writer) << 32 | u64::from(generation);
        let mut image = vec![0; IMAGE_BYTES + generation as usize % 5000];
        fastrand::Rng::with_seed(seed).fill(&mut image);
        let symbols = vec![format!("frazil_{writer}_{generation}")];
        let resources = Some(Resources { registers: writer, ..Resources::default() });
        let (key, kind) = (key(self.key), ImageKind::Cubin);
        Artifact { key, kind, image, symbols, resources, compiler: Version::new(13, 5, generation) }
    }

    /// Who wrote this artifact, all of it.
    ///
    /// # Panics
    ///
    /// Where it is a mixture.
    pub(crate) fn read(artifact: &Artifact) -> Self {
        let [symbol] = &artifact.symbols[..] else { panic!("{:?}", artifact.symbols) };
        let numbers: Vec<u32> = symbol.split('_').filter_map(|part| part.parse().ok()).collect();
        let [writer, generation] = numbers[..] else { panic!("{symbol}") };
        let written = Self { key: artifact.key.0[0], writer, generation };
        assert!(written.artifact() == *artifact, "a mixture under the name of {written:?}");
        written
    }
}

/// One of the keys of the tests.
pub(crate) fn key(first: u8) -> Key {
    let mut key = [7; 32];
    key[0] = first;
    Key(key)
}

/// The check of mixtures in red.
#[test]
#[should_panic(expected = "a mixture under the name of")]
fn a_mixture_is_told_from_both() {
    let first = Written { key: 0, writer: 1, generation: 1 }.artifact();
    let mut second = Written { key: 0, writer: 2, generation: 1 }.artifact();
    assert_eq!(Written::read(&first), Written { key: 0, writer: 1, generation: 1 });
    let end = second.image.len() - 1;
    second.image[end] = first.image[end].wrapping_add(1);
    Written::read(&second);
}
