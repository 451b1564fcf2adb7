//! Compiling with the NVRTC of this computer: every kernel for every target, and what goes wrong.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/here.rs"]
mod here;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use frazil::target::fixtures;
use frazil::{Config, Error, Origin};
use frazil_cuda::compile::{Arch, Compiler, Forbidden, Request, shared_kernels};
use frazil_cuda::sources::{Source, embedded_paths};
use frazil_cuda::{Artifacts, DiskCache, ImageKind};
use here::or_skip;

fn request(text: &str, config: Config, arch: Arch, kind: ImageKind) -> Request {
    let source = Source::new("test.cu", &[("test.cu", text)]).unwrap();
    Request { source, symbol: "frazil_test".into(), config, arch, kind }
}

fn sm80() -> Arch {
    Arch::ALL[0]
}

const COPY: &str = "\
extern \"C\" __global__ void frazil_test(const float* from, float* to) {
    to[threadIdx.x] = from[threadIdx.x];
}
";

/// Every kernel of frazil for one architecture.
fn kernels(arch: Arch) -> Vec<Request> {
    shared_kernels(arch, ImageKind::Cubin)
}

/// A file that is added to `kernels/common` must be added to the list above.
#[test]
fn every_shared_kernel_is_in_the_list() {
    let kernels = kernels(sm80());
    let sources: BTreeSet<&str> = kernels.iter().map(|request| request.source.path()).collect();
    let shared = embedded_paths().filter(|path| path.starts_with("common/"));
    assert_eq!(shared.collect::<BTreeSet<_>>(), sources);
}

/// The message is the compiler's whole log, which the reader of a source needs.
fn log_of(error: Error) -> String {
    let Error::Compile { kernel, options, log } = error else { panic!("{error}") };
    assert_eq!(kernel, "frazil_test in test.cu");
    assert!(options.contains(&"--std=c++17".to_owned()));
    log
}

#[test]
fn every_kernel_compiles_for_every_target_without_local_memory() {
    let nvrtc = or_skip!(here::nvrtc());
    let mut count = 0;
    for arch in Arch::ALL {
        if nvrtc.build().version < arch.since() {
            eprintln!("{arch} is left out: NVRTC is {}", nvrtc.build().version);
            continue;
        }
        for request in kernels(arch) {
            let path = request.source.path();
            let begin = Instant::now();
            let artifact = nvrtc.compile(&request).unwrap();
            // On two cores.
            assert!(begin.elapsed() < Duration::from_secs(3), "{arch}: {:?}", begin.elapsed());
            let resources = artifact.resources.unwrap();
            eprintln!(
                "{path} {arch}: {:?}, {resources:?}, {} bytes",
                begin.elapsed(),
                artifact.image.len()
            );
            let spilled = (resources.spill_store_bytes, resources.spill_load_bytes);
            assert_eq!((resources.stack_bytes, spilled), (0, (0, 0)), "{path} {arch}");
            assert_eq!(artifact.symbols, [request.symbol]);
            count += 1;
        }
    }
    assert!(count >= 5, "{count}");
}

#[test]
fn a_source_that_is_wrong_is_told_with_its_line() {
    let nvrtc = or_skip!(here::nvrtc());
    let text = format!("{COPY}\nint a = nothing;\n");
    let wrong = request(&text, Config::default(), sm80(), ImageKind::Cubin);
    let log = log_of(nvrtc.compile(&wrong).unwrap_err());
    assert!(log.contains("test.cu(5): error: identifier \"nothing\" is undefined"), "{log}");
}

/// The check of symbols, seen red: by its prefix, and by the name that was asked for.
#[test]
fn a_kernel_that_is_not_named_as_ours_is_refused() {
    let nvrtc = or_skip!(here::nvrtc());
    for kind in [ImageKind::Cubin, ImageKind::Ptx] {
        let other = "extern \"C\" __global__ void other() {}\n";
        for (text, said) in [
            (format!("{COPY}{other}"), "kernel `other`: its name does not begin with `frazil_`"),
            (COPY.replace("frazil_test", "frazil_copy"), "no kernel `frazil_test`"),
            // Without `extern "C"` a name is mangled.
            (COPY.replace("extern \"C\" ", ""), "does not begin with `frazil_`"),
        ] {
            let request = request(&text, Config::default(), sm80(), kind);
            let log = log_of(nvrtc.compile(&request).unwrap_err());
            assert!(log.contains(said), "{log}");
        }
    }
}

/// What the host says of a config is what the compiler reads, to the ends of 64 bits.
#[test]
fn a_config_reaches_the_compiler() {
    let nvrtc = or_skip!(here::nvrtc());
    let values = [i64::MIN, i64::from(i32::MIN), -1, 0, 128, 1 << 31, i64::MAX];
    for value in values {
        let text = |expected: i64| {
            let bits = expected.cast_unsigned();
            format!(
                "#include \"config.cuh\"\n{COPY}\n\
                 static_assert(static_cast<unsigned long long>(frazil::Config::kBlockM) == {bits}ULL, \
                 \"host and kernel disagree\");\n"
            )
        };
        let config = Config::new([("block_m", value)]);
        let right = request(&text(value), config.clone(), sm80(), ImageKind::Ptx);
        nvrtc.compile(&right).unwrap();
        let wrong = request(&text(value.wrapping_add(1)), config, sm80(), ImageKind::Ptx);
        let log = log_of(nvrtc.compile(&wrong).unwrap_err());
        assert!(log.contains("host and kernel disagree"), "{value}: {log}");
    }
}

#[test]
fn ptx_is_text_for_the_same_architecture_and_ends_in_a_zero() {
    let nvrtc = or_skip!(here::nvrtc());
    let arch = Arch::of(&fixtures::sm90()).unwrap();
    let artifact = nvrtc.compile(&request(COPY, Config::default(), arch, ImageKind::Ptx)).unwrap();
    let (zero, text) = artifact.image.split_last().unwrap();
    assert_eq!(*zero, 0);
    let text = std::str::from_utf8(text).unwrap();
    assert!(text.contains(".target sm_90a") && !text.contains('\0'), "{text}");
    assert_eq!((artifact.resources, artifact.symbols), (None, vec!["frazil_test".to_owned()]));
}

/// A key names one image: whatever thread compiles, and whatever folder it is in.
#[test]
fn threads_compile_at_once_and_make_the_same() {
    let nvrtc = or_skip!(here::nvrtc());
    let request = request(COPY, Config::default(), sm80(), ImageKind::Cubin);
    let artifacts: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..4).map(|_| scope.spawn(|| nvrtc.compile(&request).unwrap())).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    assert!(artifacts.iter().all(|artifact| *artifact == artifacts[0]));
    let folder = std::env::current_dir().unwrap();
    let folder = folder.to_str().unwrap().as_bytes();
    let image = &artifacts[0].image;
    assert!(!image.windows(folder.len()).any(|bytes| bytes == folder));
}

/// Nothing is read from a disk: not the manifest, which is in the current folder of a test.
#[test]
fn nothing_is_included_from_the_current_folder() {
    let nvrtc = or_skip!(here::nvrtc());
    assert!(std::path::Path::new("Cargo.toml").is_file());
    let text = format!("{COPY}#if __has_include(\"Cargo.toml\")\n#error it is read\n#endif\n");
    nvrtc.compile(&request(&text, Config::default(), sm80(), ImageKind::Ptx)).unwrap();
}

/// What a second plan, or a plan in a second process, waits for its kernel: with the compiler that
/// made it before, and then one that must not make anything.
#[test]
fn a_warm_kernel_takes_less_than_a_warm_plan_may() {
    let nvrtc = or_skip!(here::nvrtc());
    let folder = tempfile::tempdir().unwrap();
    let disk = DiskCache::at(folder.path());
    let request = &kernels(sm80())[0];
    let cold = Artifacts::new(Arc::clone(&nvrtc) as Arc<dyn Compiler>, Some(disk.clone()));
    let made = cold.get(request).unwrap();
    assert_eq!(made.origin, Origin::Compiled);
    let forbidden = Arc::new(Forbidden(nvrtc.build()));
    let warm = || {
        let store = Artifacts::new(Arc::clone(&forbidden) as Arc<dyn Compiler>, Some(disk.clone()));
        let read = store.get(request).unwrap();
        assert_eq!((read.origin, read.artifact), (Origin::Disk, Arc::clone(&made.artifact)));
        let again = store.get(request).unwrap();
        assert_eq!(again.origin, Origin::Memory);
        (read.took, again.took)
    };
    let (disk, memory) = (0..20).map(|_| warm()).min().unwrap();
    eprintln!("cold {:?}, from disk {disk:?}, from memory {memory:?}", made.took);
    assert!(disk < Duration::from_millis(5), "{disk:?}");
}
