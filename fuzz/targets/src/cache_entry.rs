//! The reader of a cached kernel's file.
//!
//! Whatever the bytes, an artifact or a refusal that is true of them, and no memory beyond theirs. An
//! input is read as it is, which damage does not survive; then with its lengths and its checksum made
//! right, so that what lies behind these checks is reached. What is read is written back to a file
//! that reads as the same.

use frazil_cuda::{Artifact, Refusal};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::Reached;

/// Magic, version and two lengths.
const HEADER_BYTES: usize = 32;

const SUM_BYTES: usize = 32;

/// The body of the target.
///
/// # Panics
///
/// When the reader breaks a promise.
pub(crate) fn cache_entry(input: &[u8]) -> Reached {
    let as_it_is = check(input);
    let mended = mended(input).map_or(Reached::Refused, |entry| check(&entry));
    as_it_is.max(mended)
}

fn check(entry: &[u8]) -> Reached {
    match Artifact::from_bytes(entry.to_vec()) {
        Ok(artifact) => {
            check_artifact(&artifact, entry);
            Reached::Read
        }
        Err(refusal) => {
            check_refusal(&refusal, entry);
            Reached::Refused
        }
    }
}

/// What was read stands in the entry, sealed by its sum, and is read again from what is written of it.
fn check_artifact(artifact: &Artifact, entry: &[u8]) {
    let (summed, sum) = entry.split_at(entry.len() - SUM_BYTES);
    assert_eq!(Sha256::digest(summed).as_slice(), sum, "what the sum does not seal was read");
    assert!(summed.ends_with(&artifact.image), "the image is not the entry's");
    let metadata = &summed[HEADER_BYTES..summed.len() - artifact.image.len()];
    let metadata: Value = serde_json::from_slice(metadata).expect("the metadata is JSON");
    assert_eq!(metadata["key"], artifact.key.to_string());
    assert_eq!(metadata["symbols"], Value::from(artifact.symbols.clone()));
    assert_eq!(metadata["resources"].is_null(), artifact.resources.is_none());
    let again = Artifact::from_bytes(artifact.to_bytes());
    assert_eq!(again.as_ref(), Ok(artifact), "written and read again");
}

/// The reason is true of the entry.
fn check_refusal(refusal: &Refusal, entry: &[u8]) {
    let number = |at: usize| entry.get(at..at + 8).map(|bytes| bytes.try_into().expect("eight"));
    let number = |at| number(at).map(u64::from_le_bytes);
    let length = entry.len() as u64;
    match refusal {
        Refusal::Foreign => assert!(!entry.starts_with(b"\x89frz\r\n\x1a\n")),
        Refusal::Format { found, known } => {
            assert_eq!(Some(*found), number(8));
            assert_ne!(found, known);
        }
        Refusal::Truncated { found, need } => assert!(*found == length && found < need),
        Refusal::Overlong { found, need } => assert!(*found == length && found > need),
        Refusal::Checksum | Refusal::Metadata { .. } => {
            let lengths = number(16).zip(number(24)).expect("a header");
            let whole = (HEADER_BYTES + SUM_BYTES) as u64 + lengths.0 + lengths.1;
            assert_eq!(whole, length);
            let (summed, sum) = entry.split_at(entry.len() - SUM_BYTES);
            let is_sealed = Sha256::digest(summed).as_slice() == sum;
            assert_eq!(is_sealed, matches!(refusal, Refusal::Metadata { .. }));
        }
        other => panic!("not a reason that bytes alone can give: {other:?}"),
    }
    assert!(!refusal.to_string().is_empty());
}

/// The entry with an image that ends where the file ends, and with the sum of what it holds; `None`
/// where the metadata ends behind the file.
fn mended(input: &[u8]) -> Option<Vec<u8>> {
    let mut entry = input.get(..input.len().checked_sub(SUM_BYTES)?)?.to_vec();
    let metadata_bytes = u64::from_le_bytes(entry.get(16..24)?.try_into().ok()?);
    let rest = (entry.len() as u64).checked_sub(HEADER_BYTES as u64)?;
    let image_bytes = rest.checked_sub(metadata_bytes)?;
    entry.get_mut(24..32)?.copy_from_slice(&image_bytes.to_le_bytes());
    let sum = Sha256::digest(&entry);
    entry.extend_from_slice(&sum);
    Some(entry)
}
