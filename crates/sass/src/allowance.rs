//! What a kernel may do that the gate forbids, stated with a reason.

use serde::Deserialize;

use crate::table::Row;

const ALLOWANCES: &str = include_str!("../allowances.toml");

/// Local memory that one kernel may touch.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowance {
    /// Its symbol.
    pub kernel: String,
    /// Its config, as the table shows it.
    pub config: String,
    /// What it is compiled for.
    pub target: String,
    /// Most accesses to local memory in a loop with products.
    pub local: u32,
    /// Most bytes of such accesses outside.
    pub local_bytes_outside: u32,
    /// Why it is so, and what would end it.
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    allowance: Vec<Allowance>,
}

impl Allowance {
    /// Whether a row is of its kernel.
    pub fn is_of(&self, row: &Row) -> bool {
        (&self.kernel, &self.config, &self.target) == (&row.kernel, &row.config, &row.target)
    }

    /// The kernel in words.
    pub fn place(&self) -> String {
        format!("{}[{}] {}", self.kernel, self.config, self.target)
    }
}

/// Those of this repository.
///
/// # Errors
///
/// Where the file is none, or a reason is empty.
pub fn allowances() -> Result<Vec<Allowance>, String> {
    let fault = |error: &dyn std::fmt::Display| format!("allowances.toml: {error}");
    let file: File = toml::from_str(ALLOWANCES).map_err(|error| fault(&error))?;
    match file.allowance.iter().find(|allowance| allowance.reason.trim().is_empty()) {
        Some(allowance) => Err(fault(&format!("{}: no reason", allowance.place()))),
        None => Ok(file.allowance),
    }
}
