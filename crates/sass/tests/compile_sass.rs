//! The gate over the machine code of every kernel, and the gate in red.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

use std::io::Write;
use std::sync::Arc;

use frazil::Config;
use frazil::cuda::ImageKind;
use frazil::cuda::compile::{Arch, Compiler, Request};
use frazil::cuda::nvrtc::{Nvrtc, nvrtc};
use frazil::cuda::sources::Source;
use frazil_conformance::{cargo_path, skip};
use frazil_sass::allowance::allowances;
use frazil_sass::gate::{is_compared, violations};
use frazil_sass::kernels::{Kernel, kernels};
use frazil_sass::nvdisasm::Nvdisasm;
use frazil_sass::table::{self, Row};

/// The compiler and the disassembler, or why not.
fn tools() -> Result<(Arc<Nvrtc>, Nvdisasm), String> {
    let first_line = |text: String| text.lines().next().unwrap_or_default().to_owned();
    let nvrtc = nvrtc().map_err(|error| format!("no NVRTC: {}", first_line(error.to_string())))?;
    Ok((nvrtc, Nvdisasm::find()?))
}

#[test]
fn every_kernel_passes_the_gate() {
    let (_, nvdisasm) = match tools() {
        Ok(tools) => tools,
        Err(why) => return skip::because(why),
    };
    let snapshot = table::read(&cargo_path!("CARGO_MANIFEST_DIR").join("snapshot.csv")).unwrap();
    let mut rows = Vec::new();
    for kernel in kernels().unwrap() {
        rows.extend(kernel.rows(&nvdisasm).unwrap());
    }
    assert!(rows.len() >= 2, "{rows:?}");
    let found = violations(&rows, &snapshot, &allowances().unwrap());
    assert!(found.is_empty(), "{}\n`cargo xtask sass` shows all", found.join("\n"));
    if !is_compared(&rows, &snapshot) {
        // Seen whether or not the test passes. A new NVRTC is no fault of whoever meets it first.
        let nvrtc = &rows[0].nvrtc;
        let what = "lengths of loops were compared with nothing; `cargo xtask sass --write`";
        writeln!(std::io::stderr(), "no snapshot of NVRTC {nvrtc}: {what}").unwrap();
    }
}

/// A loop of products whose threads keep what they index in local memory.
const SPILLING: &str = "\
extern \"C\" __global__ void frazil_test(const int* from, float* to, int count) {
    int kept[64];
#pragma unroll
    for (int i = 0; i < 64; ++i) kept[i] = from[i];
    float d[4] = {};
    for (int i = 0; i < count; ++i) {
        const int a = kept[from[i] & 63];
        asm volatile(
            \"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%0,%1,%2,%3};\"
            : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3])
            : \"r\"(a));
        kept[from[i] & 31] = i;
    }
    to[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
";

fn rows_of(text: &str, nvrtc: &Nvrtc, nvdisasm: &Nvdisasm) -> Vec<Row> {
    let request = Request {
        source: Source::new("test.cu", &[("test.cu", text)]).unwrap(),
        symbol: "frazil_test".into(),
        config: Config::default(),
        arch: Arch::ALL[0],
        kind: ImageKind::Cubin,
    };
    let artifact = Arc::new(nvrtc.compile(&request).unwrap());
    let kernel = Kernel::new(artifact, String::new(), request.arch.to_string()).unwrap();
    kernel.rows(nvdisasm).unwrap()
}

#[test]
fn local_memory_in_a_loop_of_products_is_found_and_the_same_loop_without_it_passes() {
    let (nvrtc, nvdisasm) = match tools() {
        Ok(tools) => tools,
        Err(why) => return skip::because(why),
    };
    let rows = rows_of(SPILLING, &nvrtc, &nvdisasm);
    let found = violations(&rows, &[], &[]).join("\n");
    assert!(rows.iter().any(|row| row.mma > 0 && row.local > 0), "{rows:?}");
    assert!(found.contains("accesses to local memory in the loop"), "{found}");
    assert!(found.contains("bytes of local memory outside"), "{found}");
    let clean =
        SPILLING.replace("kept[from[i] & 63]", "kept[7]").replace("kept[from[i] & 31] = i;", "");
    let rows = rows_of(&clean, &nvrtc, &nvdisasm);
    assert!(rows.iter().any(|row| row.mma > 0), "{rows:?}");
    assert_eq!(violations(&rows, &[], &[]), [""; 0]);
}

#[test]
fn a_snapshot_is_read_as_it_was_written_and_keeps_other_compilers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.csv");
    assert_eq!(table::read(&path).unwrap(), []);
    let row = |nvrtc: &str, position, length| Row {
        kernel: "frazil_x".into(),
        config: "block_m=64,dtype=1".into(),
        target: "sm_90a".into(),
        nvrtc: nvrtc.into(),
        registers: 255,
        spill_bytes: 8,
        position,
        length,
        mma: 128,
        ldsm: 72,
        mufu: 34,
        ldgsts: 16,
        local: 0,
        local_bytes_outside: 16,
    };
    let older = [row("13.0", Some(0), 600)];
    table::write(&path, &older).unwrap();
    table::write(&path, &[row("13.5", Some(0), 700)]).unwrap();
    // Of a kernel without loops nothing is kept, and of one compiler the last alone.
    let newer = [row("13.5", Some(0), 610), row("13.5", Some(1), 800)];
    table::write(&path, &[&newer[..], &[row("13.5", None, 0)]].concat()).unwrap();
    assert_eq!(table::read(&path).unwrap(), [&older[..], &newer].concat());
}
