//! Files that have grown too long to be read in one go.

use std::fs;
use std::process::Command;

use crate::{Failure, root, say};

/// Most lines of a Rust file, tests included.
const MAX_LINES: usize = 500;

pub(crate) fn sizes() -> Result<(), Failure> {
    let root = root();
    // Tracked, and about to be.
    let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.rs"];
    let listed = Command::new("git").args(args).current_dir(&root).output();
    let listed = listed.map_err(|error| format!("git ls-files: {error}"))?;
    if !listed.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim()));
    }
    let names = String::from_utf8_lossy(&listed.stdout);
    let mut long = Vec::new();
    let mut num_files = 0;
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        // A file deleted but still tracked has no size.
        let Ok(text) = fs::read_to_string(root.join(name)) else { continue };
        num_files += 1;
        let lines = text.lines().count();
        if lines > MAX_LINES {
            long.push(format!("{name}: {lines} lines"));
        }
    }
    if long.is_empty() {
        return say(&format!("sizes: {num_files} Rust files of at most {MAX_LINES} lines"));
    }
    Err(format!("the limit is {MAX_LINES} lines\n{}", long.join("\n")))
}
