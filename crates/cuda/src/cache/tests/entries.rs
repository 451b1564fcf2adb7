//! What bytes are an entry, and what bytes are not.

use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::{key, small};
use crate::cache::entry::key_of;
use crate::{Artifact, ImageKind, Key, Refusal, Resources};

const HEADER: usize = 32;

const METADATA_BYTES: usize = 257;

const SUM: &str = "c75e6cd06013406a22e741f00abdd8bc9b902ad0b933680669ea1c35557914d0";

/// The entry of `small()`, put together by hand; its sum was computed by Python's hashlib.
fn small_by_hand() -> Vec<u8> {
    let metadata = concat!(
        r#"{"key":"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f","#,
        r#""kind":"cubin","symbols":["frazil_a","frazil_b"],"#,
        r#""resources":{"registers":40,"stack_bytes":0,"spill_store_bytes":8,"#,
        r#""spill_load_bytes":16,"static_smem_bytes":1024},"compiler":[13,5,0]}"#,
    );
    assert_eq!(metadata.len(), METADATA_BYTES);
    let sum = key_of(SUM).unwrap().0;
    let numbers = [1, METADATA_BYTES as u64, 6].map(u64::to_le_bytes).concat();
    let parts: [&[u8]; 5] =
        [b"\x89frz\r\n\x1a\n", &numbers, metadata.as_bytes(), b"\x7fELF\x00\xff", &sum];
    parts.concat()
}

/// The entry with the sum that its bytes have.
fn summed(mut entry: Vec<u8>) -> Vec<u8> {
    entry.truncate(entry.len() - 32);
    let sum = Sha256::digest(&entry);
    entry.extend_from_slice(&sum);
    entry
}

#[test]
fn the_bytes_of_an_entry_are_those_of_the_format() {
    assert_eq!(small().to_bytes(), small_by_hand());
    assert_eq!(Artifact::from_bytes(small_by_hand()), Ok(small()));
}

#[test]
fn a_key_is_read_as_it_is_written_and_in_no_other_way() {
    let digits = key(0xAB).to_string();
    assert_eq!(key_of(&digits), Some(key(0xAB)));
    let others = [&digits[1..], &digits[2..], &digits.to_uppercase(), "", "é"];
    for other in others.into_iter().chain([&*format!("{digits}00"), &digits.replace("ab", "+b")]) {
        assert_eq!(key_of(other), None, "{other}");
    }
}

#[test]
fn an_entry_cut_at_any_length_is_refused() {
    let whole = small_by_hand();
    for length in 0..whole.len() {
        let found = Artifact::from_bytes(whole[..length].to_vec());
        let Err(Refusal::Truncated { found, need }) = found else {
            panic!("{length} bytes: {found:?}")
        };
        // Before its lengths are read no more is known than the least that an entry can be.
        let known = if length < HEADER { HEADER + 32 } else { whole.len() };
        assert_eq!((found, need), (length as u64, known as u64));
    }
}

/// One wrong bit anywhere, each alone: none is read, and none as another thing.
#[test]
fn an_entry_with_any_bit_flipped_is_refused() {
    let whole = small_by_hand();
    for bit in 0..8 * whole.len() {
        let mut entry = whole.clone();
        entry[bit / 8] ^= 1 << (bit % 8);
        let refusal = Artifact::from_bytes(entry).expect_err("a flipped bit");
        let is_expected = match bit / 8 {
            0..8 => refusal == Refusal::Foreign,
            8..16 => matches!(refusal, Refusal::Format { known: 1, .. }),
            16..32 => matches!(refusal, Refusal::Truncated { .. } | Refusal::Overlong { .. }),
            _ => refusal == Refusal::Checksum,
        };
        assert!(is_expected, "bit {bit}: {refusal:?}");
    }
}

/// What file systems leave of a file after a power failure: zeros for its end, in blocks or whole; and
/// what is behind an end that was moved.
#[test]
fn an_entry_whose_end_is_lost_or_moved_is_refused() {
    let whole = small_by_hand();
    // The sum ends in no zero, so that each of these differs from the whole.
    assert_ne!(whole.last(), Some(&0));
    for kept in 0..whole.len() {
        let mut entry = whole.clone();
        entry[kept..].fill(0);
        assert!(Artifact::from_bytes(entry).is_err(), "zeros behind {kept} bytes");
    }
    for tail in [vec![0], vec![0; 4096], whole.clone()] {
        let entry = [whole.clone(), tail].concat();
        let (found, need) = (entry.len() as u64, whole.len() as u64);
        assert_eq!(Artifact::from_bytes(entry), Err(Refusal::Overlong { found, need }));
    }
}

/// Lengths that no memory holds are compared with the size of the file before anything is asked for.
#[test]
fn lengths_without_bound_are_refused() {
    for at in [16, 24] {
        for length in [u64::MAX, u64::MAX - 63, 1 << 63, 1 << 40] {
            let mut entry = small_by_hand();
            entry[at..at + 8].copy_from_slice(&length.to_le_bytes());
            let refusal = Artifact::from_bytes(summed(entry));
            assert!(matches!(refusal, Err(Refusal::Truncated { need, .. }) if need >= length));
        }
    }
}

/// Entries of a sound sum that say something else: as a later version, or a fault of ours, might.
#[test]
fn metadata_that_is_not_understood_is_refused() {
    let rows = [
        (r#""kind":"cubin""#, r#""kind":"fatbin""#),
        (r#""kind":"cubin","#, ""),
        (r#""kind":"cubin""#, r#""kind":"cubin","more":1"#),
        (r#""compiler":[13,5,0]"#, r#""compiler":[13,5]"#),
        (r#""compiler":[13,5,0]"#, r#""compiler":[13,5,4294967296]"#),
        (r#""registers":40"#, r#""registers":-1"#),
        (r#""registers":40,"#, ""),
        (r#""frazil_a""#, "7"),
        (r#""key":"00"#, r#""key":"0"#),
        (r#""key":"00"#, r#""key":"0G"#),
        (r#"{"key""#, r#"[[[[[[{"key""#),
        ("frazil_a", "frazil_\u{1}"),
        ("[13,5,0]}", "[13,5,0]} {}"),
    ];
    let whole = small_by_hand();
    let text = std::str::from_utf8(&whole[HEADER..HEADER + METADATA_BYTES]).unwrap();
    for (from, to) in rows {
        assert!(text.contains(from), "{from}");
        let metadata = text.replacen(from, to, 1);
        let mut entry = whole[..16].to_vec();
        entry.extend_from_slice(&(metadata.len() as u64).to_le_bytes());
        entry.extend_from_slice(&whole[24..HEADER]);
        entry.extend_from_slice(metadata.as_bytes());
        entry.extend_from_slice(&whole[HEADER + METADATA_BYTES..]);
        let refusal = Artifact::from_bytes(summed(entry));
        assert!(matches!(refusal, Err(Refusal::Metadata { .. })), "{to}: {refusal:?}");
    }
}

fn artifacts() -> impl Strategy<Value = Artifact> {
    let resources = any::<[u32; 5]>().prop_map(|numbers| {
        let [registers, stack_bytes, spill_store_bytes, spill_load_bytes, static_smem_bytes] =
            numbers;
        Resources { registers, stack_bytes, spill_store_bytes, spill_load_bytes, static_smem_bytes }
    });
    let kind = prop_oneof![Just(ImageKind::Cubin), Just(ImageKind::Ptx)];
    let image = prop::collection::vec(any::<u8>(), 0..300);
    let symbols = prop::collection::vec(any::<String>(), 0..4);
    let rest = (prop::option::of(resources), any::<[u32; 3]>());
    (any::<[u8; 32]>(), kind, image, symbols, rest).prop_map(
        |(key, kind, image, symbols, (resources, [major, minor, patch]))| {
            let compiler = frazil_core::Version::new(major, minor, patch);
            Artifact { key: Key(key), kind, image, symbols, resources, compiler }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_artifact_is_read_back_as_it_was(artifact in artifacts()) {
        prop_assert_eq!(Artifact::from_bytes(artifact.to_bytes()), Ok(artifact));
    }

    #[test]
    fn artifacts_that_differ_have_entries_that_differ(first in artifacts(), second in artifacts()) {
        prop_assert_eq!(first == second, first.to_bytes() == second.to_bytes());
    }
}
