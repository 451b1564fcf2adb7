//! What is compiled in: named integers.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The integers that distinguish one build of an engine from another.
///
/// One value feeds the kernel source, the cache key, the log line and the benchmark row. Written
/// `block_m=128,block_n=64`; the order is the engine's and counts in comparisons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Config(Vec<(Cow<'static, str>, i64)>);

impl Config {
    /// The fields in the engine's order.
    pub fn new(fields: impl IntoIterator<Item = (&'static str, i64)>) -> Self {
        Self(fields.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }

    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<i64> {
        self.0.iter().find(|(field, _)| field == name).map(|&(_, value)| value)
    }

    /// Name and value of every field.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), *value))
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, value)) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{name}={value}")?;
        }
        Ok(())
    }
}

impl From<Config> for String {
    fn from(config: Config) -> Self {
        config.to_string()
    }
}

/// A text that is no config.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("config field `{field}` is not `name=integer`, or its name came before")]
pub struct ParseConfigError {
    /// The part between commas that was not understood.
    pub field: String,
}

impl FromStr for Config {
    type Err = ParseConfigError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut config = Self::default();
        for field in text.split(',').filter(|_| !text.is_empty()) {
            let refuse = || ParseConfigError { field: field.into() };
            let (name, value) = field.split_once('=').ok_or_else(refuse)?;
            let value = value.parse().map_err(|_| refuse())?;
            if name.is_empty() || config.get(name).is_some() {
                return Err(refuse());
            }
            config.0.push((name.to_owned().into(), value));
        }
        Ok(config)
    }
}

impl TryFrom<String> for Config {
    type Error = ParseConfigError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_value_are_one() {
        let config = Config::new([("block_m", 128), ("num_stages", -2)]);
        assert_eq!(config.to_string(), "block_m=128,num_stages=-2");
        assert_eq!(config.to_string().parse(), Ok(config));
        assert_eq!("".parse(), Ok(Config::default()));
        for bad in ["block_m", "=1", "a=b", "a=1,", "a=1,a=2"] {
            assert!(bad.parse::<Config>().is_err(), "{bad}");
        }
    }
}
