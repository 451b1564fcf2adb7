//! What is amiss on which computer.

use std::fs;

use frazil_cuda::find::fixtures::{PACKAGES, elf, loader_cache};

use super::super::findings::{Finding, Severity};
use super::super::opened::Answer;
use super::{CUDNN, TOOLKIT, Tree, VERSION};

type Build = fn(&mut Tree);

/// Computers, and the codes of everything amiss there.
const COMPUTERS: &[(&str, Build, &[&str])] = &[
    ("nothing", |_| {}, &["no_gpu"]),
    (
        "healthy",
        |t| {
            t.driver().nvrtc().cudnn(CUDNN, "9.8.0");
        },
        &[],
    ),
    (
        "nothing_opens",
        |t| {
            t.driver().nvrtc();
            t.opened.driver = Answer::Missing("cuInit failed: 802\nmore".into());
            t.opened.nvrtc = Answer::Missing("no NVRTC that can be used".into());
        },
        &["driver_not_opened", "nvrtc_not_opened"],
    ),
    (
        "nothing_opens_and_nothing_is_there",
        |t| {
            t.opened.driver = Answer::Missing("no library".into());
            t.opened.nvrtc = Answer::Missing("no NVRTC".into());
        },
        &["no_gpu"],
    ),
    (
        "a_compiler_that_is_named_does_not_open",
        |t| {
            t.driver().variable("FRAZIL_NVRTC", "/nowhere");
            t.opened.nvrtc = Answer::Missing("FRAZIL_NVRTC names /nowhere".into());
        },
        &["nvrtc_missing", "nvrtc_not_opened"],
    ),
    (
        "a_driver_whose_nodes_are_missing_does_not_start",
        |t| {
            t.driver().nvrtc();
            fs::remove_dir_all(t.path("/dev")).unwrap();
            t.opened.driver = Answer::Missing("cuInit failed: 100".into());
        },
        &["device_nodes_missing"],
    ),
    (
        "healthy_wheels",
        |t| {
            t.driver();
            t.wheel(
                "cuda_nvrtc",
                "nvidia_cuda_nvrtc_cu12",
                "12.4.127",
                &["libnvrtc.so.12", "libnvrtc-builtins.so.12.4"],
            );
        },
        &[],
    ),
    (
        "healthy_wsl",
        |t| {
            t.nvrtc().file("/dev/dxg", "").library("/usr/lib/wsl/lib/libcuda.so.1.1");
        },
        &[],
    ),
    (
        "wheels_without_gpu",
        |t| {
            t.wheel(
                "cuda_nvrtc",
                "nvidia_cuda_nvrtc_cu12",
                "12.4.127",
                &["libnvrtc.so.12", "libnvrtc-builtins.so.12.4"],
            );
        },
        &["no_gpu"],
    ),
    (
        "no_library",
        |t| {
            t.driver().nvrtc();
            fs::remove_file(t.path(CUDNN).join("libcuda.so.550.54.14")).unwrap();
        },
        &["driver_library_missing"],
    ),
    (
        "nodes_alone",
        |t| {
            t.nvrtc().file("/dev/nvidia0", "");
        },
        &["driver_library_missing"],
    ),
    (
        "library_alone",
        |t| {
            t.nvrtc().library("/usr/lib64/libcuda.so.550.54.14");
        },
        &["kernel_driver_missing"],
    ),
    (
        "no_nodes",
        |t| {
            t.driver().nvrtc();
            fs::remove_dir_all(t.path("/dev")).unwrap();
        },
        &["device_nodes_missing"],
    ),
    (
        "no_unified_memory",
        |t| {
            t.driver().nvrtc();
            fs::remove_file(t.path("/dev/nvidia-uvm")).unwrap();
        },
        &["device_nodes_missing"],
    ),
    (
        "container_without_gpu",
        |t| {
            t.nvrtc().file("/.dockerenv", "").file("/proc/driver/nvidia/version", VERSION);
        },
        &["container_without_gpu"],
    ),
    (
        "container_without_compute",
        |t| {
            t.nvrtc().file("/.dockerenv", "").file("/dev/nvidia0", "");
        },
        &["driver_library_missing"],
    ),
    (
        "driver_was_upgraded",
        |t| {
            t.driver().nvrtc();
            let folder = t.path(CUDNN);
            fs::rename(folder.join("libcuda.so.550.54.14"), folder.join("libcuda.so.560.35.3"))
                .unwrap();
        },
        &["driver_versions_differ"],
    ),
    (
        "two_drivers",
        |t| {
            t.driver().nvrtc().library("/usr/lib64/libcuda.so.535.1.2");
        },
        &["driver_versions_differ", "several_versions"],
    ),
    (
        "compat_is_no_driver",
        |t| {
            t.driver().nvrtc().library("/usr/local/cuda-12.4/compat/libcuda.so.560.35.3");
        },
        &[],
    ),
    (
        "no_nvrtc",
        |t| {
            t.driver();
        },
        &["nvrtc_missing"],
    ),
    (
        "no_builtins",
        |t| {
            t.driver().libraries(TOOLKIT, &["libnvrtc.so.12.4.127"]);
        },
        &["nvrtc_builtins_missing"],
    ),
    (
        "builtins_of_another_version",
        |t| {
            t.driver().libraries(TOOLKIT, &["libnvrtc.so.12.4.127", "libnvrtc-builtins.so.12.1"]);
        },
        &["nvrtc_builtins_missing"],
    ),
    (
        "builtins_of_another_folder",
        |t| {
            t.driver().libraries(TOOLKIT, &["libnvrtc.so.12.4.127"]);
            t.library("/usr/local/cuda-12.3/lib64/libnvrtc-builtins.so.12.4");
        },
        &["nvrtc_builtins_missing"],
    ),
    (
        "builtins_on_the_loaders_path",
        |t| {
            t.driver().libraries(TOOLKIT, &["libnvrtc.so.12.4.127"]);
            t.library("/usr/lib64/libnvrtc-builtins.so.12.4");
        },
        &[],
    ),
    (
        "nvrtc_too_new",
        |t| {
            t.driver().libraries(TOOLKIT, &["libnvrtc.so.13.0.88", "libnvrtc-builtins.so.13.0.88"]);
        },
        &["nvrtc_newer_than_driver"],
    ),
    (
        "one_nvrtc_is_old_enough",
        |t| {
            t.driver().nvrtc().libraries(
                "/opt/cuda/lib64",
                &["libnvrtc.so.13.0.88", "libnvrtc-builtins.so.13.0.88"],
            );
        },
        &["several_versions"],
    ),
    (
        "part_of_cudnn_missing",
        |t| {
            t.driver().nvrtc().cudnn(CUDNN, "9.8.0");
            fs::remove_file(t.path(CUDNN).join("libcudnn_graph.so.9.8.0")).unwrap();
        },
        &["cudnn_parts_missing"],
    ),
    (
        "part_of_cudnn_of_another_version",
        |t| {
            t.driver()
                .nvrtc()
                .cudnn(CUDNN, "9.8.0")
                .library(&format!("{CUDNN}/libcudnn_ops.so.9.5.1"));
        },
        &["cudnn_parts_differ"],
    ),
    (
        "two_cudnns",
        |t| {
            t.driver().nvrtc().cudnn(CUDNN, "9.8.0").cudnn("/opt/cuda/lib64", "9.1.0");
        },
        &["several_versions"],
    ),
    (
        "cudnn_alone",
        |t| {
            t.cudnn(CUDNN, "9.8.0");
        },
        &["cudnn_without_cublaslt", "cudnn_without_nvrtc", "no_gpu"],
    ),
    (
        "cudnn_for_another_cuda",
        |t| {
            t.driver().nvrtc().cudnn(&format!("{PACKAGES}/nvidia/cudnn/lib"), "9");
            t.wheel("cudnn", "nvidia_cudnn_cu13", "9.14.0.64", &["libcudnn.so.9"]);
        },
        &["cudnn_without_cublaslt", "cudnn_without_nvrtc"],
    ),
    (
        "older_cudnn_has_other_parts",
        |t| {
            t.driver()
                .nvrtc()
                .libraries(CUDNN, &["libcudnn.so.8.9.7", "libcudnn_ops_infer.so.8.9.7"]);
        },
        &[],
    ),
    (
        "empty_library",
        |t| {
            t.driver().nvrtc().file("/usr/lib64/libcuda.so.1", "");
        },
        &["broken_file"],
    ),
    (
        "text_for_a_library",
        |t| {
            t.driver().nvrtc().file("/usr/lib64/libcudnn.so.9", "!<arch>");
        },
        &["broken_file"],
    ),
    (
        "folder_for_a_library",
        |t| {
            t.driver().nvrtc().file("/usr/lib64/libcudnn.so.9/x", "");
        },
        &["broken_file"],
    ),
    (
        "other_processor",
        |t| {
            t.file("/usr/lib64/libcuda.so.550.54.14", elf(3));
        },
        &["no_gpu"],
    ),
    (
        "stale_cache",
        |t| {
            t.file(
                "/etc/ld.so.cache",
                loader_cache(&["/gone/libnvrtc.so.12", "/gone/libother.so.1"], false),
            );
        },
        &["broken_file", "no_gpu"],
    ),
    (
        "stubs_on_the_path",
        |t| {
            t.driver().nvrtc().variable("LD_LIBRARY_PATH", "/usr/local/cuda-12.4/lib64/stubs");
            t.library("/usr/local/cuda-12.4/lib64/stubs/libcuda.so");
        },
        &["stubs_on_loader_path"],
    ),
    (
        "stubs_elsewhere",
        |t| {
            t.driver().nvrtc().library("/usr/local/cuda-12.4/lib64/stubs/libcuda.so");
        },
        &[],
    ),
];

#[test]
fn computers_and_what_is_amiss() {
    for (name, build, codes) in COMPUTERS {
        let mut tree = Tree::new();
        build(&mut tree);
        let mut found = tree.codes();
        found.sort_unstable();
        assert_eq!(found, *codes, "{name}: {:#?}", tree.findings());
        assert!(tree.findings().is_sorted_by_key(Finding::severity), "the worst comes first");
    }
}

#[test]
fn what_is_said_names_versions_and_paths() {
    let mut tree = Tree::new();
    tree.driver().nvrtc().cudnn(CUDNN, "9.8.0").cudnn("/opt/cuda/lib64", "9.1.0");
    fs::remove_file(tree.path(TOOLKIT).join("libnvrtc-builtins.so.12.4.127")).unwrap();
    fs::remove_file(tree.path("/opt/cuda/lib64/libcudnn_graph.so.9.1.0")).unwrap();
    fs::remove_file(tree.path("/opt/cuda/lib64/libcudnn_ops.so.9.1.0")).unwrap();
    for (code, parts) in [
        ("several_versions", &["cuDNN", "9.8.0 at ", "9.1.0 at ", "/opt/cuda/lib64"][..]),
        ("nvrtc_builtins_missing", &["12.4.127 at ", "cuda-12.4/lib64/libnvrtc.so.12.4.127"]),
    ] {
        let said = tree.said(code);
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
    // Parts on the loader's path are found by name, of whatever version: the warning above.
    assert!(!tree.codes().contains(&"cudnn_parts_missing"));
    fs::remove_dir_all(tree.path(CUDNN)).unwrap();
    assert!(tree.said("cudnn_parts_missing").ends_with("lacks its parts graph, ops"));
    let container = Finding::DriverLibraryMissing { is_container: true };
    assert!(container.advice().contains("NVIDIA_DRIVER_CAPABILITIES"));
    assert_eq!(container.severity(), Severity::Problem);
}

#[test]
fn a_broken_file_is_told_by_what_is_wrong_with_it() {
    for (bytes, said, advice) in [
        ("", "is empty", "container runtime"),
        ("!<arch>", "is no shared library", "again"),
        ("INPUT(libcudnn.so.9.1.0) /* a script for linkers */", "is no shared library", "again"),
    ] {
        let mut tree = Tree::new();
        tree.file("/usr/lib64/libcudnn.so.9", bytes);
        let findings = tree.findings();
        let broken = findings.iter().find(|finding| finding.code() == "broken_file").unwrap();
        assert!(broken.to_string().ends_with(&format!("lib64/libcudnn.so.9 {said}")), "{broken}");
        assert!(broken.advice().contains(advice), "{}", broken.advice());
    }
}
