//! Fields of a JSON object, taken one by one by name.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field `{field}`: {reason}")]
pub struct FieldError {
    /// Its name.
    pub field: String,
    /// What is wrong.
    pub reason: String,
}

impl FieldError {
    pub(super) fn new(field: &str, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }
}

/// The fields of one object that nobody took yet.
pub(super) struct Fields(pub(super) Map<String, Value>);

impl Fields {
    /// A field that may be absent or null.
    pub(super) fn optional<T: DeserializeOwned>(
        &mut self,
        name: &str,
    ) -> Result<Option<T>, FieldError> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match serde_json::from_value(value) {
                Ok(value) => Ok(Some(value)),
                Err(error) => Err(FieldError::new(name, error.to_string())),
            },
        }
    }

    /// A field that must be there.
    pub(super) fn required<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, FieldError> {
        self.optional(name)?.ok_or_else(|| FieldError::new(name, "is missing"))
    }

    /// A switch; absent means off.
    pub(super) fn flag(&mut self, name: &str) -> Result<bool, FieldError> {
        Ok(self.optional(name)?.unwrap_or(false))
    }

    /// Fields that have no effect on a forward pass; they must be of their type all the same.
    pub(super) fn ignore<T: DeserializeOwned>(&mut self, names: &[&str]) -> Result<(), FieldError> {
        names.iter().try_for_each(|name| self.optional::<T>(name).map(drop))
    }

    /// Refuses what is left.
    pub(super) fn finish(self) -> Result<(), FieldError> {
        match self.0.keys().next() {
            Some(name) => Err(FieldError::new(name, "is unknown")),
            None => Ok(()),
        }
    }
}
