//! The bytes of an artifact in a file.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | [`MAGIC`] |
//! | 8 | the format's version: [`FORMAT`] |
//! | 8 | length of the metadata |
//! | 8 | length of the image |
//! | | the metadata, as JSON |
//! | | the image |
//! | 32 | SHA-256 of all that stands before it |
//!
//! Numbers are little-endian. Nothing is behind the sum. All is judged before it is used: lengths
//! against the size of the file, then the sum, then the metadata, so that whatever damage a disk does
//! is a [`Refusal`].

use frazil_core::{Resources, Version};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Refusal;
use crate::{Artifact, ImageKind, Key};

/// What every entry begins with. As in PNG, bytes that a transfer as text would change.
const MAGIC: [u8; 8] = *b"\x89frz\r\n\x1a\n";

/// Version of the format. Another one has a folder of its own, so that neither meets the other's.
pub(super) const FORMAT: u64 = 1;

/// Magic, version and two lengths.
const HEADER_BYTES: usize = 32;

const SUM_BYTES: usize = 32;

/// All that an entry says beside its image.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    key: String,
    kind: Kind,
    symbols: Vec<String>,
    resources: Option<Taken>,
    compiler: [u32; 3],
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Cubin,
    Ptx,
}

/// [`Resources`], in words that stay when a field is renamed.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Taken {
    registers: u32,
    stack_bytes: u32,
    spill_store_bytes: u32,
    spill_load_bytes: u32,
    static_smem_bytes: u32,
}

impl Artifact {
    /// The bytes of a file of the cache that holds this.
    pub fn to_bytes(&self) -> Vec<u8> {
        let metadata = serde_json::to_vec(&Metadata::of(self));
        let metadata = metadata.expect("words, numbers and lists have a form in JSON");
        let bytes = HEADER_BYTES + metadata.len() + self.image.len() + SUM_BYTES;
        let mut entry = Vec::with_capacity(bytes);
        entry.extend_from_slice(&MAGIC);
        entry.extend_from_slice(&FORMAT.to_le_bytes());
        entry.extend_from_slice(&(metadata.len() as u64).to_le_bytes());
        entry.extend_from_slice(&(self.image.len() as u64).to_le_bytes());
        entry.extend_from_slice(&metadata);
        entry.extend_from_slice(&self.image);
        let sum = Sha256::digest(&entry);
        entry.extend_from_slice(&sum);
        entry
    }

    /// What a file of the cache holds, whatever its bytes are.
    ///
    /// # Errors
    ///
    /// [`Refusal::Foreign`], [`Refusal::Format`], [`Refusal::Truncated`], [`Refusal::Overlong`],
    /// [`Refusal::Checksum`], or [`Refusal::Metadata`] where the sum is right and the rest is not.
    pub fn from_bytes(mut entry: Vec<u8>) -> Result<Self, Refusal> {
        let found = entry.len() as u64;
        let too_short = || Refusal::Truncated { found, need: (HEADER_BYTES + SUM_BYTES) as u64 };
        if !MAGIC.starts_with(&entry[..entry.len().min(MAGIC.len())]) {
            return Err(Refusal::Foreign);
        }
        let number = |index: usize| {
            let begin = MAGIC.len() + 8 * index;
            let bytes = entry.get(begin..)?.first_chunk::<8>()?;
            Some(u64::from_le_bytes(*bytes))
        };
        let format = number(0).ok_or_else(too_short)?;
        if format != FORMAT {
            return Err(Refusal::Format { found: format, known: FORMAT });
        }
        let metadata_bytes = number(1).ok_or_else(too_short)?;
        let image_bytes = number(2).ok_or_else(too_short)?;
        let framing = (HEADER_BYTES + SUM_BYTES) as u64;
        let need = framing.saturating_add(metadata_bytes).saturating_add(image_bytes);
        if found < need {
            return Err(Refusal::Truncated { found, need });
        }
        if found > need {
            return Err(Refusal::Overlong { found, need });
        }
        let (summed, sum) = entry.split_at(entry.len() - SUM_BYTES);
        if Sha256::digest(summed).as_slice() != sum {
            return Err(Refusal::Checksum);
        }
        // Both lengths are below that of the entry, which is in memory.
        let in_memory =
            |bytes| usize::try_from(bytes).map_err(|_| Refusal::Truncated { found, need });
        let image_at = HEADER_BYTES + in_memory(metadata_bytes)?;
        let metadata: Metadata = serde_json::from_slice(&summed[HEADER_BYTES..image_at])
            .map_err(|error| Refusal::Metadata { why: error.to_string() })?;
        entry.truncate(entry.len() - SUM_BYTES);
        entry.drain(..image_at);
        metadata.with_image(entry)
    }
}

impl Metadata {
    fn of(artifact: &Artifact) -> Self {
        let Version { major, minor, patch } = artifact.compiler;
        Self {
            key: artifact.key.to_string(),
            kind: match artifact.kind {
                ImageKind::Cubin => Kind::Cubin,
                ImageKind::Ptx => Kind::Ptx,
            },
            symbols: artifact.symbols.clone(),
            resources: artifact.resources.map(Taken::of),
            compiler: [major, minor, patch],
        }
    }

    fn with_image(self, image: Vec<u8>) -> Result<Artifact, Refusal> {
        let no_key = || Refusal::Metadata { why: "the key is not 64 hexadecimal digits".into() };
        let [major, minor, patch] = self.compiler;
        Ok(Artifact {
            key: key_of(&self.key).ok_or_else(no_key)?,
            kind: match self.kind {
                Kind::Cubin => ImageKind::Cubin,
                Kind::Ptx => ImageKind::Ptx,
            },
            image,
            symbols: self.symbols,
            resources: self.resources.map(Taken::resources),
            compiler: Version::new(major, minor, patch),
        })
    }
}

impl Taken {
    fn of(resources: Resources) -> Self {
        let Resources {
            registers,
            stack_bytes,
            spill_store_bytes,
            spill_load_bytes,
            static_smem_bytes,
        } = resources;
        Self { registers, stack_bytes, spill_store_bytes, spill_load_bytes, static_smem_bytes }
    }

    fn resources(self) -> Resources {
        let Self { registers, stack_bytes, spill_store_bytes, spill_load_bytes, static_smem_bytes } =
            self;
        Resources { registers, stack_bytes, spill_store_bytes, spill_load_bytes, static_smem_bytes }
    }
}

/// The key that is written so: exactly what its `Display` gives.
pub(super) fn key_of(digits: &str) -> Option<Key> {
    let digits = digits.as_bytes().as_chunks::<2>();
    let (pairs, []) = digits else { return None };
    let pairs: &[[u8; 2]; 32] = pairs.try_into().ok()?;
    let mut key = [0; 32];
    for (byte, pair) in key.iter_mut().zip(pairs) {
        let nibble = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(Key(key))
}
