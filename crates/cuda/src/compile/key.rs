//! The name of what a request makes.

use sha2::{Digest, Sha256};

use super::Request;
use crate::nvrtc::Build;
use crate::{ImageKind, Key};

/// Raised where the meaning of a field changes, so that no older artifact has a name of today.
const FORMAT: u64 = 1;

impl Key {
    /// The name of what a compiler makes of a request: a SHA-256 over everything that it is made
    /// from, each field with its length before it, so that no two lists of fields are one text.
    pub fn of(request: &Request, build: Build) -> Self {
        let mut hash = Fields(Sha256::new());
        hash.number(FORMAT);
        hash.number(request.source.files().len() as u64);
        for file in request.source.files() {
            hash.field(file.path.as_bytes());
            hash.field(&file.sha256);
        }
        hash.field(request.symbol.as_bytes());
        hash.field(request.config.to_string().as_bytes());
        hash.field(request.arch.to_string().as_bytes());
        hash.field(match request.kind {
            ImageKind::Cubin => b"cubin",
            ImageKind::Ptx => b"ptx",
        });
        let options = request.options(build.version);
        hash.number(options.len() as u64);
        options.iter().for_each(|option| hash.field(option.as_bytes()));
        for number in [build.version.major, build.version.minor, build.version.patch] {
            hash.number(number.into());
        }
        hash.number(build.library_bytes);
        Self(hash.0.finalize().into())
    }
}

struct Fields(Sha256);

impl Fields {
    fn number(&mut self, number: u64) {
        self.field(&number.to_le_bytes());
    }

    fn field(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }
}

#[cfg(test)]
mod tests {
    use frazil_core::{Config, Version};

    use super::*;
    use crate::compile::Arch;
    use crate::sources::Source;

    const FILES: [(&str, &str); 2] = [("a.cu", "#include \"b.cuh\"\n"), ("b.cuh", "int b;")];
    const BUILD: Build = Build { version: Version::new(13, 5, 0), library_bytes: 7 };

    fn request(files: [(&str, &str); 2]) -> Request {
        Request {
            source: Source::new(files[0].0, &files).unwrap(),
            symbol: "frazil_a".into(),
            config: Config::new([("block_m", 128), ("block_n", 64)]),
            arch: Arch::ALL[0],
            kind: ImageKind::Cubin,
        }
    }

    #[test]
    fn whatever_an_artifact_is_made_from_is_in_its_name() {
        let base = request(FILES);
        let config = |fields: [(&'static str, i64); 2]| Config::new(fields);
        let changed = [
            ("text", request([FILES[0], ("b.cuh", "int c;")])),
            ("text of the source", request([("a.cu", "#include \"b.cuh\"\n\n"), FILES[1]])),
            ("path", request([("c.cu", FILES[0].1), FILES[1]])),
            ("symbol", Request { symbol: "frazil_b".into(), ..request(FILES) }),
            (
                "a value",
                Request { config: config([("block_m", 129), ("block_n", 64)]), ..request(FILES) },
            ),
            (
                "a field",
                Request { config: config([("block_m", 128), ("block_k", 64)]), ..request(FILES) },
            ),
            (
                "order",
                Request { config: config([("block_n", 64), ("block_m", 128)]), ..request(FILES) },
            ),
            ("target", Request { arch: Arch::ALL[1], ..request(FILES) }),
            ("kind", Request { kind: ImageKind::Ptx, ..request(FILES) }),
        ];
        let mut keys: Vec<Key> =
            changed.iter().map(|(_, request)| Key::of(request, BUILD)).collect();
        let other = Build { version: Version::new(13, 4, 0), ..BUILD };
        keys.push(Key::of(&base, other));
        keys.push(Key::of(&base, Build { library_bytes: 8, ..BUILD }));
        keys.push(Key::of(&base, BUILD));
        assert_eq!(Key::of(&base, BUILD), Key::of(&request(FILES), BUILD));
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    /// A file that nothing includes is not part of it.
    #[test]
    fn what_is_not_included_is_not_in_the_name() {
        let files = [FILES[0], FILES[1], ("other.cuh", "int other;")];
        let source = Source::new("a.cu", &files).unwrap();
        let more = Request { source, ..request(FILES) };
        assert_eq!(Key::of(&more, BUILD), Key::of(&request(FILES), BUILD));
    }
}
