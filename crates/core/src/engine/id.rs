//! Names of engines.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Names of the engines of this workspace. Append only: the order breaks ties between engines that
/// the router ranks alike, and stored plans hold these names.
pub const OWN_ENGINES: &[&str] = &["sdpa_fwd_cpu", "sdpa_fwd_sm80"];

/// Name of an engine: `op_arch` for those of this workspace, `vendor/op_arch` for others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EngineId(Cow<'static, str>);

impl EngineId {
    /// A name known at compile time; a malformed one does not compile.
    ///
    /// # Panics
    ///
    /// If the name is malformed and the call is not evaluated at compile time.
    pub const fn new(name: &'static str) -> Self {
        assert!(is_well_formed(name.as_bytes()), "engine names are op_arch or vendor/op_arch");
        Self(Cow::Borrowed(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Place in [`OWN_ENGINES`]; names outside it come after, by name.
    pub fn order(&self) -> (usize, &str) {
        let own = OWN_ENGINES.iter().position(|&name| name == self.0);
        (own.unwrap_or(OWN_ENGINES.len()), &self.0)
    }
}

/// Lower-case letters, digits and underscores, with one slash at most, between non-empty parts.
const fn is_well_formed(name: &[u8]) -> bool {
    let (mut at, mut slashes, mut part) = (0, 0, 0);
    while at < name.len() {
        match name[at] {
            b'/' if part > 0 => (slashes, part) = (slashes + 1, 0),
            b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => part += 1,
            _ => return false,
        }
        at += 1;
    }
    part > 0 && slashes <= 1
}

impl fmt::Display for EngineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<EngineId> for String {
    fn from(id: EngineId) -> Self {
        id.0.into_owned()
    }
}

/// A text that names no engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an engine name: op_arch or vendor/op_arch in lower case")]
pub struct ParseEngineIdError(String);

impl TryFrom<String> for EngineId {
    type Error = ParseEngineIdError;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        if is_well_formed(name.as_bytes()) {
            Ok(Self(name.into()))
        } else {
            Err(ParseEngineIdError(name))
        }
    }
}

impl FromStr for EngineId {
    type Err = ParseEngineIdError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        name.to_owned().try_into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stored plans and tie-breaks rest on this order: a line may be added at the end, nothing else.
    #[test]
    fn the_table_of_own_engines_only_grows() {
        assert_eq!(OWN_ENGINES, ["sdpa_fwd_cpu", "sdpa_fwd_sm80"]);
    }

    #[test]
    fn own_engines_come_first_in_table_order() {
        let mut ids = ["zoo/a", "abc/x", "sdpa_fwd_cpu"].map(EngineId::new);
        ids.sort_by(|a, b| a.order().cmp(&b.order()));
        assert_eq!(ids.map(String::from), ["sdpa_fwd_cpu", "abc/x", "zoo/a"]);
    }

    #[test]
    fn malformed_names_are_refused() {
        for bad in ["", "/a", "a/", "a/b/c", "Sdpa", "a b"] {
            assert!(bad.parse::<EngineId>().is_err(), "{bad}");
        }
    }
}
