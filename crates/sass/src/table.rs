//! What was measured, as rows: printed, and kept as the snapshot.

use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::kernels::Kernel;
use crate::measure::{LoopCounts, Measured};

/// A loop of a kernel; of a kernel without products one row without a loop.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its symbol.
    pub kernel: String,
    /// What is compiled in, without sizes that follow from it.
    pub config: String,
    /// What it is compiled for.
    pub target: String,
    /// Version of NVRTC, `13.5`: each schedules otherwise.
    pub nvrtc: String,
    /// Of a thread.
    pub registers: u32,
    /// Stored and loaded for want of registers, as the compiler says it.
    pub spill_bytes: u32,
    /// Position among the kernel's loops.
    #[serde(rename = "loop")]
    pub position: Option<usize>,
    /// Instructions of the loop.
    pub length: u32,
    /// Its matrix products.
    pub mma: u32,
    /// Its loads of matrices from shared memory.
    pub ldsm: u32,
    /// Its special functions.
    pub mufu: u32,
    /// Its copies by `cp.async`.
    pub ldgsts: u32,
    /// Its accesses to local memory.
    pub local: u32,
    /// Bytes of accesses to local memory outside of all loops with products.
    pub local_bytes_outside: u32,
}

impl Row {
    /// Rows of a kernel.
    pub fn of(kernel: &Kernel, measured: &Measured) -> Vec<Self> {
        let loops = measured.loops.iter().enumerate().map(|(at, counts)| (Some(at), *counts));
        let mut loops: Vec<(Option<usize>, LoopCounts)> = loops.collect();
        if loops.is_empty() {
            loops.push((None, LoopCounts::default()));
        }
        let row = |(position, counts): (Option<usize>, LoopCounts)| Self {
            kernel: kernel.symbol.clone(),
            config: choices(&kernel.config),
            target: kernel.target.clone(),
            nvrtc: kernel.nvrtc.clone(),
            registers: kernel.resources.registers,
            spill_bytes: kernel.resources.spill_store_bytes + kernel.resources.spill_load_bytes,
            position,
            length: counts.length,
            mma: counts.mma,
            ldsm: counts.ldsm,
            mufu: counts.mufu,
            ldgsts: counts.ldgsts,
            local: counts.local,
            local_bytes_outside: measured.local_bytes_outside,
        };
        loops.into_iter().map(row).collect()
    }

    /// Which loop of which kernel it is about.
    pub fn key(&self) -> (&str, &str, &str, Option<usize>) {
        (&self.kernel, &self.config, &self.target, self.position)
    }

    /// The same in words.
    pub fn place(&self) -> String {
        let at = self.position.map_or(String::new(), |at| format!(", loop {at}"));
        format!("{}[{}] {}{at}", self.kernel, self.config, self.target)
    }
}

/// A config without its sizes in bytes, which say how the host lays out what the kernel reads: a new
/// field of a parameter makes no new kernel.
fn choices(config: &str) -> String {
    let is_choice =
        |field: &&str| !field.split('=').next().is_some_and(|name| name.ends_with("_bytes"));
    config.split(',').filter(is_choice).collect::<Vec<_>>().join(",")
}

/// Reads a snapshot; none where there is no file.
///
/// # Errors
///
/// Where it is no snapshot.
pub fn read(path: &Path) -> Result<Vec<Row>, String> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let fault = |error: csv::Error| format!("{}: {error}", path.display());
    let mut reader = csv::Reader::from_path(path).map_err(fault)?;
    reader.deserialize().collect::<Result<_, _>>().map_err(fault)
}

/// Writes a snapshot: the loops of these rows, and the old ones of other compilers.
///
/// # Errors
///
/// Where it cannot be written.
pub fn write(path: &Path, rows: &[Row]) -> Result<(), String> {
    let is_other = |old: &Row| rows.iter().all(|row| row.nvrtc != old.nvrtc);
    let mut all: Vec<Row> = read(path)?.into_iter().filter(is_other).collect();
    all.extend(rows.iter().filter(|row| row.position.is_some()).cloned());
    all.sort_by(|a, b| (&a.nvrtc, a.key()).cmp(&(&b.nvrtc, b.key())));
    let fault = |error: csv::Error| format!("{}: {error}", path.display());
    let mut writer = csv::Writer::from_path(path).map_err(fault)?;
    all.iter().try_for_each(|row| writer.serialize(row)).map_err(fault)?;
    writer.flush().map_err(|error| format!("{}: {error}", path.display()))
}

/// Prints rows for people.
///
/// # Errors
///
/// Where nothing can be written.
pub fn print(rows: &[Row], out: &mut dyn Write) -> std::io::Result<()> {
    let head =
        ["regs", "spill", "loop", "length", "mma", "ldsm", "mufu", "ldgsts", "local", "outside"];
    writeln!(out, "{}", head.map(|name| format!("{name:>7}")).concat())?;
    let mut last = None;
    for row in rows {
        let kernel = (&row.kernel, &row.config, &row.target);
        if last.replace(kernel) != Some(kernel) {
            writeln!(out, "{}[{}] {}", row.kernel, row.config, row.target)?;
        }
        let position = row.position.map_or("-".into(), |at| at.to_string());
        write!(out, "{:>7}{:>7}{position:>7}", row.registers, row.spill_bytes)?;
        let counts = [row.length, row.mma, row.ldsm, row.mufu, row.ldgsts, row.local];
        write!(out, "{}", counts.map(|count| format!("{count:>7}")).concat())?;
        writeln!(out, "{:>8}", row.local_bytes_outside)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_bytes_are_no_choices() {
        let config = "block_m=64,params_bytes=768,head_dim_qk=128,smem_bytes=49152";
        assert_eq!(choices(config), "block_m=64,head_dim_qk=128");
        assert_eq!(choices(""), "");
    }
}
