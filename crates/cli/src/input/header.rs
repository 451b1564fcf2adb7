//! What the header of a safetensors file claims, checked against the file.
//!
//! The `safetensors` crate checks most of this too, but names neither tensor nor limit, and adds up
//! offsets near 2^64 without a check; so its reader only sees headers that passed here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use safetensors::Dtype;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

/// Bytes of the length of the header.
const LENGTH_BYTES: usize = 8;

/// The entry that is no tensor.
const METADATA: &str = "__metadata__";

/// Longest header that readers take, in bytes.
const MAX_HEADER_BYTES: u64 = 100_000_000;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    dtype: Dtype,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// Refuses files whose header lies.
pub(super) fn check(file: &[u8]) -> Result<(), String> {
    let claims = claims(file)?;
    let header_bytes = header_bytes(file)?;
    let data_bytes = (file.len() - LENGTH_BYTES) as u64 - header_bytes;
    for (name, claim) in &claims {
        check_claim(claim, data_bytes).map_err(|what| format!("tensor `{name}`: {what}"))?;
    }
    let mut by_offset: Vec<_> =
        claims.iter().map(|(name, claim)| (claim.data_offsets, name)).collect();
    by_offset.sort_unstable();
    let mut end = 0;
    for (offsets, name) in by_offset {
        if offsets.0 != end {
            let what =
                if offsets.0 < end { "overlaps the tensor before it" } else { "leaves a gap" };
            return Err(format!(
                "tensor `{name}`: data_offsets {offsets:?} {what}; the data so far ends at {end}"
            ));
        }
        end = offsets.1;
    }
    if end != data_bytes {
        return Err(format!("holds {data_bytes} bytes of data, the tensors take {end}"));
    }
    Ok(())
}

fn header_bytes(file: &[u8]) -> Result<u64, String> {
    let Some(length) = file.first_chunk() else {
        return Err(format!("has {} bytes; a safetensors file has at least 8", file.len()));
    };
    let header = u64::from_le_bytes(*length);
    let rest = (file.len() - LENGTH_BYTES) as u64;
    if header > MAX_HEADER_BYTES {
        return Err(format!("claims a header of {header} bytes, the limit is {MAX_HEADER_BYTES}"));
    }
    if header > rest {
        return Err(format!("claims a header of {header} bytes, only {rest} follow"));
    }
    Ok(header)
}

fn claims(file: &[u8]) -> Result<BTreeMap<String, Claim>, String> {
    let header = usize::try_from(header_bytes(file)?).map_err(|error| error.to_string())?;
    let text = &file[LENGTH_BYTES..][..header];
    // Apart from what the entries mean, so that messages about them say nothing of JSON.
    let _: BTreeMap<String, IgnoredAny> = serde_json::from_slice(text)
        .map_err(|error| format!("header is no JSON object: {error}"))?;
    let Header(claims) =
        serde_json::from_slice(text).map_err(|error| format!("header: {error}"))?;
    Ok(claims)
}

/// The tensors of a header. Of two entries of one name readers take different ones, so there must
/// be no two.
struct Header(BTreeMap<String, Claim>);

/// The strings of `__metadata__`, of which the same is true.
struct Strings;

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tensors by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let (mut claims, mut has_metadata) = (BTreeMap::new(), false);
                while let Some(name) = map.next_key::<String>()? {
                    if name == METADATA {
                        if std::mem::replace(&mut has_metadata, true) {
                            return Err(A::Error::custom(format!("`{METADATA}` is there twice")));
                        }
                        map.next_value::<Strings>()
                            .map_err(|error| A::Error::custom(format!("`{METADATA}`: {error}")))?;
                        continue;
                    }
                    let claim = map
                        .next_value::<Claim>()
                        .map_err(|error| A::Error::custom(format!("tensor `{name}`: {error}")))?;
                    if claims.contains_key(&name) {
                        return Err(A::Error::custom(format!("tensor `{name}` is there twice")));
                    }
                    claims.insert(name, claim);
                }
                Ok(Header(claims))
            }
        }

        from.deserialize_map(Entries)
    }
}

impl<'de> Deserialize<'de> for Strings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Strings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("strings by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Strings, A::Error> {
                let mut seen = BTreeSet::new();
                while let Some((name, _)) = map.next_entry::<String, String>()? {
                    if seen.contains(&name) {
                        return Err(A::Error::custom(format!("`{name}` is there twice")));
                    }
                    seen.insert(name);
                }
                Ok(Strings)
            }

            // `null`, which other readers take for no metadata.
            fn visit_unit<E: Error>(self) -> Result<Strings, E> {
                Ok(Strings)
            }
        }

        from.deserialize_any(Entries)
    }
}

fn check_claim(claim: &Claim, data_bytes: u64) -> Result<(), String> {
    let Claim { dtype, shape, data_offsets: (begin, end) } = claim;
    if begin > end {
        return Err(format!("data_offsets begin at {begin} and end before, at {end}"));
    }
    if *end > data_bytes {
        return Err(format!(
            "data_offsets end at {end}, the file holds {data_bytes} bytes of data"
        ));
    }
    let bits = shape.iter().try_fold(dtype.bitsize() as u64, |bits, &n| bits.checked_mul(n));
    let held = end - begin;
    match bits.map(|bits| bits / 8) {
        Some(bytes) if bytes == held => Ok(()),
        Some(bytes) => {
            Err(format!("{dtype} {shape:?} takes {bytes} bytes, data_offsets hold {held}"))
        }
        None => Err(format!("{dtype} {shape:?} takes more than 2^64 bits")),
    }
}
