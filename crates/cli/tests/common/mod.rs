//! The program as a process, and files for it.

#![allow(dead_code, reason = "every test program uses a part")]

use std::path::PathBuf;
use std::process::{Command, Output};

use frazil_conformance::cargo_path;
use serde_json::Value;

/// What the program said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    /// Standard output as JSON, one value a line.
    pub(crate) fn json(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).expect("a line of JSON");
        self.stdout.lines().map(parse).collect()
    }

    /// Checks the exit code, with everything said as the message.
    pub(crate) fn assert_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        assert!(!self.stderr.contains("panicked"), "{self:#?}");
        self
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

/// The command line under test.
pub(crate) fn program() -> PathBuf {
    cargo_path!("CARGO_BIN_EXE_frazil")
}

pub(crate) fn command<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(program());
    command.args(args);
    command
}

pub(crate) fn frazil<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Said {
    command(args).output().expect("the program starts").into()
}

/// A layer of the shipped input.
pub(crate) fn minilm(layer: u32) -> PathBuf {
    let data = cargo_path!("CARGO_MANIFEST_DIR").join("../../data/minilm");
    data.join(format!("layer{layer}.safetensors"))
}

/// A file of this test program's own.
pub(crate) fn write(name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let folder = cargo_path!("CARGO_TARGET_TMPDIR").join("frazil-cli");
    std::fs::create_dir_all(&folder).expect("a folder for files");
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("a file is written");
    path
}

/// A safetensors file with any header.
pub(crate) fn with_header(header: &str, data: &[u8]) -> Vec<u8> {
    let length = (header.len() as u64).to_le_bytes();
    [&length, header.as_bytes(), data].concat()
}

/// One tensor: name, type, extents and bytes.
pub(crate) struct Tensor(
    pub(crate) &'static str,
    pub(crate) &'static str,
    pub(crate) Vec<u64>,
    pub(crate) Vec<u8>,
);

pub(crate) fn f32s(name: &'static str, shape: &[u64], value: impl Fn(usize) -> f32) -> Tensor {
    let count = usize::try_from(shape.iter().product::<u64>()).expect("a small tensor");
    Tensor(name, "F32", shape.to_vec(), (0..count).flat_map(|at| value(at).to_le_bytes()).collect())
}

pub(crate) fn i32s(name: &'static str, values: &[i32]) -> Tensor {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor(name, "I32", vec![values.len() as u64], bytes)
}

/// A file of these tensors, one after another.
pub(crate) fn file(tensors: &[Tensor], metadata: &[(&str, &str)]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    if !metadata.is_empty() {
        let strings = metadata.iter().map(|&(key, value)| (key.to_owned(), value.into()));
        header.insert("__metadata__".into(), Value::Object(strings.collect()));
    }
    let mut data = Vec::new();
    for Tensor(name, dtype, shape, bytes) in tensors {
        let offsets = [data.len(), data.len() + bytes.len()];
        let claim = serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": offsets});
        header.insert((*name).into(), claim);
        data.extend(bytes);
    }
    with_header(&Value::Object(header).to_string(), &data)
}

/// Three rows of two heads in two sequences, packed; `change` may alter the tensors.
pub(crate) fn packed(change: impl FnOnce(&mut Vec<Tensor>)) -> Vec<u8> {
    let wave = |phase: f32| move |at: usize| (at as f32 * 0.7 + phase).sin();
    let mut tensors = vec![
        f32s("q", &[3, 2, 8], wave(0.0)),
        f32s("k", &[3, 2, 8], wave(1.0)),
        f32s("v", &[3, 2, 4], wave(2.0)),
        i32s("q_prefix", &[0, 1, 3]),
        i32s("kv_prefix", &[0, 1, 3]),
    ];
    change(&mut tensors);
    file(&tensors, &[])
}
