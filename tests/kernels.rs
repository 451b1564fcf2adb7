//! What every file of `kernels/` keeps to, docs/KERNELS.md.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

use std::fs;
use std::path::{Path, PathBuf};

use frazil_conformance::cargo_path;

fn folder() -> PathBuf {
    cargo_path!("CARGO_MANIFEST_DIR").join("kernels")
}

/// Paths from `kernels/` on, and texts.
fn files() -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut folders = vec![folder()];
    while let Some(path) = folders.pop() {
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder()).unwrap().to_str().unwrap().to_owned();
            files.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    assert!(files.len() > 3, "{files:?}");
    files
}

/// Includes of a file that are neither of `kernels/` nor written by the host.
fn foreign_includes(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim).filter(|line| line.starts_with("#include"));
    let is_own = |line: &str| {
        let name = line.split('"').nth(1);
        name.is_some_and(|name| name == "config.cuh" || folder().join(name).is_file())
    };
    lines.filter(|line| !is_own(line)).collect()
}

#[test]
fn kernels_include_nothing_outside_themselves() {
    for (name, text) in files() {
        assert_eq!(foreign_includes(&text), [""; 0], "{name}");
    }
    let foreign = "#include <cuda_fp16.h>\n#include \"common/types.cuh\"\n#include \"types.cuh\"\n";
    assert_eq!(foreign_includes(foreign), ["#include <cuda_fp16.h>", "#include \"types.cuh\""]);
}

/// Lines of code with an `asm` in them.
fn asm(text: &str) -> impl Iterator<Item = &str> {
    let code = |line: &&str| !line.trim_start().starts_with("//");
    text.lines().filter(code).filter(|line| {
        line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "asm")
    })
}

#[test]
fn asm_stands_in_instruction_headers_alone() {
    for (name, text) in files() {
        let stem = Path::new(&name).file_stem().unwrap().to_str().unwrap();
        let is_instruction_header = stem == "ptx" || stem.starts_with("ptx_");
        assert!(is_instruction_header || asm(&text).count() == 0, "{name}");
    }
    assert_eq!(asm("// asm\n  asm volatile(\"bar.sync 0;\");\n").count(), 1);
}

#[test]
fn a_source_has_one_entry_whose_name_is_ours() {
    let entries = |text: &str| text.matches("__global__").count();
    for (name, text) in files() {
        let is_source = name.ends_with(".cu");
        assert!(is_source || name.ends_with(".cuh"), "{name} is neither source nor header");
        assert_eq!(entries(&text), usize::from(is_source), "{name}");
        if is_source {
            let (_, after) = text.split_once("extern \"C\" __global__").expect("its one entry");
            let declarator = after.split_once("(const __grid_constant__").unwrap().0;
            let symbol = declarator.split_whitespace().next_back().unwrap();
            assert!(symbol.starts_with("frazil_"), "{name}: {symbol}");
        }
    }
}
