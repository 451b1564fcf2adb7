//! Numbers of a case that must be numbers: a NaN or an infinity, or what an f32 makes one of, is a
//! slip of the case's author, and as JSON it could not be repeated.

use serde::de::{Deserialize, Deserializer, Error};

fn finite<'de, D: Deserializer<'de>>(field: &str, value: f32) -> Result<f32, D::Error> {
    if value.is_finite() {
        return Ok(value);
    }
    Err(D::Error::custom(format!("`{field}` is {value} as an f32, which must be finite")))
}

fn optional<'de, D: Deserializer<'de>>(field: &str, from: D) -> Result<Option<f32>, D::Error> {
    let value: Option<f32> = Option::deserialize(from)?;
    value.map(|value| finite::<D>(field, value)).transpose()
}

pub(super) fn softmax_scale<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f32>, D::Error> {
    optional("softmax_scale", from)
}

pub(super) fn soft_cap<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f32>, D::Error> {
    optional("soft_cap", from)
}

pub(super) fn dropout<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f32>, D::Error> {
    optional("dropout", from)
}

pub(super) fn constant<'de, D: Deserializer<'de>>(from: D) -> Result<f32, D::Error> {
    finite::<D>("sink.constant", f32::deserialize(from)?)
}
