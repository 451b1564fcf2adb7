//! Computers that are not here, as trees of files.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::driver::KernelDriver;
use super::findings::{Finding, Severity, findings};
use super::library::{Kind, THIS_MACHINE};
use super::loader_cache::tests::cache;
use super::roots::{Roots, Source};
use super::search::{Found, search};

/// A file system under construction.
struct Tree {
    /// Removed when dropped.
    _folder: TempDir,
    roots: Roots,
}

const TOOLKIT: &str = "/usr/local/cuda-12.4/lib64";
const CUDNN: &str = "/usr/lib/x86_64-linux-gnu";
const PACKAGES: &str = "/venv/lib/python3.11/site-packages";
const VERSION: &str = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22\n";

impl Tree {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let roots = Roots { root, current: "/home/me".into(), variables: BTreeMap::new() };
        Self { _folder: folder, roots }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.roots.at(path)
    }

    fn file(&mut self, path: &str, bytes: impl AsRef<[u8]>) -> &mut Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self
    }

    /// The head of a shared object for this processor.
    fn library(&mut self, path: &str) -> &mut Self {
        self.file(path, elf(THIS_MACHINE.unwrap_or(0)))
    }

    fn libraries(&mut self, folder: &str, names: &[&str]) -> &mut Self {
        names.iter().for_each(|name| {
            self.library(&format!("{folder}/{name}"));
        });
        self
    }

    #[cfg(unix)]
    fn link(&mut self, path: &str, to: &str) -> &mut Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, path).unwrap();
        self
    }

    fn variable(&mut self, name: &'static str, value: &str) -> &mut Self {
        self.roots.variables.insert(name, value.into());
        self
    }

    /// Kernel driver 550.54.14, its nodes and its library.
    fn driver(&mut self) -> &mut Self {
        self.file("/proc/driver/nvidia/version", VERSION);
        self.file("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t NVIDIA H200\n");
        for node in ["nvidia0", "nvidiactl", "nvidia-uvm"] {
            self.file(&format!("/dev/{node}"), "");
        }
        self.library(&format!("{CUDNN}/libcuda.so.550.54.14"))
    }

    fn nvrtc(&mut self) -> &mut Self {
        let names =
            ["libnvrtc.so.12.4.127", "libnvrtc-builtins.so.12.4.127", "libcublasLt.so.12.4.5.8"];
        self.libraries(TOOLKIT, &names)
    }

    /// cuDNN of one version, whole.
    fn cudnn(&mut self, folder: &str, version: &str) -> &mut Self {
        for part in [
            "",
            "_graph",
            "_ops",
            "_heuristic",
            "_engines_precompiled",
            "_engines_runtime_compiled",
            "_adv",
        ] {
            self.library(&format!("{folder}/libcudnn{part}.so.{version}"));
        }
        self
    }

    /// A wheel of NVIDIA in the virtual environment: its files, without and with their `RECORD`.
    fn wheel(&mut self, part: &str, name: &str, version: &str, files: &[&str]) -> &mut Self {
        let folder = format!("nvidia/{part}/lib");
        self.libraries(&format!("{PACKAGES}/{folder}"), files);
        let record: String =
            files.iter().map(|file| format!("{folder}/{file},sha256=x,1\n")).collect();
        self.file(&format!("{PACKAGES}/{name}-{version}.dist-info/RECORD"), record);
        self.variable("VIRTUAL_ENV", "/venv")
    }

    fn search(&self) -> Found {
        search(&self.roots)
    }

    fn findings(&self) -> Vec<Finding> {
        let mut findings = findings(&KernelDriver::read(&self.roots), &self.search());
        // Of this program, not of the tree.
        findings.retain(|finding| !matches!(finding, Finding::Unoptimised | Finding::OtherSystem));
        findings
    }

    fn codes(&self) -> Vec<&'static str> {
        self.findings().iter().map(Finding::code).collect()
    }

    /// What is said of the one finding with that code.
    fn said(&self, code: &str) -> String {
        let findings = self.findings();
        let found: Vec<&Finding> = findings.iter().filter(|f| f.code() == code).collect();
        assert_eq!(found.len(), 1, "{code}: {findings:#?}");
        assert!(!found[0].advice().is_empty());
        found[0].to_string()
    }
}

/// First bytes of a shared object of 64 bits for a machine.
fn elf(machine: u16) -> Vec<u8> {
    let mut head = b"\x7fELF\x02\x01\x01".to_vec();
    head.resize(16, 0);
    head.extend([3_u16.to_le_bytes(), machine.to_le_bytes()].concat());
    head.resize(64, 0);
    head
}

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
                cache(&["/gone/libnvrtc.so.12", "/gone/libother.so.1"], false),
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

/// What is found of a library: version, package, place.
#[cfg(unix)]
#[test]
fn one_file_is_one_library_however_many_names_it_has() {
    let mut tree = Tree::new();
    tree.nvrtc().link("/usr/local/cuda", "cuda-12.4").variable("CUDA_HOME", "/usr/local/cuda");
    tree.link(&format!("{TOOLKIT}/libnvrtc.so.12"), "libnvrtc.so.12.4.127");
    tree.link(&format!("{TOOLKIT}/libnvrtc.so"), "libnvrtc.so.12");
    tree.file("/etc/ld.so.cache", cache(&["/usr/local/cuda/lib64/libnvrtc.so.12"], true));
    let found = tree.search();
    let nvrtc: Vec<_> = found.of(Kind::Nvrtc).collect();
    assert_eq!(nvrtc.len(), 1, "{nvrtc:#?}");
    assert_eq!(nvrtc[0].path, tree.path(TOOLKIT).join("libnvrtc.so.12.4.127"));
    assert_eq!(nvrtc[0].version.to_string(), "12.4.127");
    assert_eq!((nvrtc[0].source, nvrtc[0].on_loader_path), (Source::LoaderCache, true));
    let builtins = found.of(Kind::NvrtcBuiltins).next().unwrap();
    assert_eq!((builtins.source, builtins.on_loader_path), (Source::Toolkit, false));
}

#[test]
fn a_wheel_says_the_version_that_its_files_do_not() {
    let mut tree = Tree::new();
    tree.wheel(
        "cu13",
        "nvidia_cuda_nvrtc",
        "13.0.88",
        &["libnvrtc.so.13", "libnvrtc-builtins.so.13.0"],
    );
    tree.libraries(&format!("{PACKAGES}/torch/lib"), &["libcudnn.so.9"]);
    tree.file(
        &format!("{PACKAGES}/torch-2.6.0+cu124.dist-info/RECORD"),
        "torch/lib/libcudnn.so.9,,\n",
    );
    let found = tree.search();
    let nvrtc = found.of(Kind::Nvrtc).next().unwrap();
    assert_eq!((nvrtc.version.to_string().as_str(), nvrtc.source), ("13.0.88", Source::Python));
    assert_eq!(nvrtc.package.as_ref().unwrap().0, "nvidia-cuda-nvrtc");
    // The version of torch is not that of the cuDNN in it.
    let cudnn = found.of(Kind::Cudnn).next().unwrap();
    assert_eq!(cudnn.version.to_string(), "9");
    assert_eq!(cudnn.package.as_ref().unwrap().1.to_string(), "2.6.0");
}

/// Where a library lies, with which variables, and how it is found.
type Place = (&'static str, &'static [(&'static str, &'static str)], Option<(Source, bool)>);

/// Every place where a library may lie, and whether the loader finds it there.
const PLACES: &[Place] = &[
    ("/usr/lib64", &[], Some((Source::LoaderFolder, true))),
    ("/usr/local/nvidia/lib64", &[], Some((Source::DriverFolder, false))),
    ("/usr/local/cuda-13.0/targets/sbsa-linux/lib", &[], Some((Source::Toolkit, false))),
    ("/home/me/cuda/lib64", &[("CUDA_HOME", "/home/me/cuda")], Some((Source::Toolkit, false))),
    (
        "/home/me/here",
        &[("LD_LIBRARY_PATH", "/nowhere:here")],
        Some((Source::LoaderVariable, true)),
    ),
    ("/home/me", &[("LD_LIBRARY_PATH", "/nowhere:")], Some((Source::LoaderVariable, true))),
    ("/conda/lib", &[("CONDA_PREFIX", "/conda")], Some((Source::Conda, false))),
    (
        "/conda/lib/python3.12/site-packages/nvidia/cu13/lib",
        &[("CONDA_PREFIX", "/conda")],
        Some((Source::Python, false)),
    ),
    (
        "/home/me/.local/lib/python3.9/site-packages/nvidia/x/lib",
        &[("HOME", "/home/me")],
        Some((Source::Python, false)),
    ),
    ("/usr/lib/python3/dist-packages/torch/lib", &[], Some((Source::Python, false))),
    ("/venv/lib/python3.11/site-packages/nvidia/x/lib", &[], None),
    ("/srv/lib", &[], None),
];

#[test]
fn places_where_a_library_may_lie() {
    for (folder, variables, expected) in PLACES {
        let mut tree = Tree::new();
        tree.library(&format!("{folder}/libnvrtc.so.12"));
        for (name, value) in *variables {
            tree.variable(name, value);
        }
        let found = tree.search();
        let nvrtc = found.of(Kind::Nvrtc).next();
        let found = nvrtc.map(|nvrtc| (nvrtc.source, nvrtc.on_loader_path));
        assert_eq!(found, *expected, "{folder} {variables:?}");
    }
}

/// The python that PATH finds is active without any variable, and leads to the one it came from.
#[cfg(unix)]
#[test]
fn the_python_on_the_path_is_looked_into() {
    let mut tree = Tree::new();
    tree.file("/opt/py/bin/python3.12", "")
        .link("/work/env/bin/python3", "../../../opt/py/bin/python3.12");
    tree.library("/work/env/lib/python3.12/site-packages/nvidia/a/lib/libnvrtc.so.12");
    tree.library("/opt/py/lib/python3.12/site-packages/nvidia/b/lib/libcudnn.so.9");
    tree.variable("PATH", "/bin:/work/env/bin");
    let found = tree.search();
    assert_eq!((found.of(Kind::Nvrtc).count(), found.of(Kind::Cudnn).count()), (1, 1));
}

#[cfg(unix)]
#[test]
fn circles_and_dead_links_are_said_and_end() {
    let mut tree = Tree::new();
    tree.link("/usr/lib64/libcuda.so.1", "libcuda.so")
        .link("/usr/lib64/libcuda.so", "libcuda.so.1");
    tree.link("/usr/lib64/libnvrtc.so.12", "libnvrtc.so.12.4.127");
    tree.link("/usr/local/cuda", "cuda").variable("LD_LIBRARY_PATH", "/usr/local/cuda/lib64");
    tree.link(&format!("{PACKAGES}/nvidia/loop"), "../nvidia").variable("VIRTUAL_ENV", "/venv");
    let mut codes = tree.codes();
    codes.dedup();
    assert_eq!(codes, ["broken_file", "unreadable_folder", "no_gpu"], "{:#?}", tree.findings());
    assert_eq!(tree.search().broken.len(), 3);
}

#[cfg(unix)]
#[test]
fn names_that_are_not_text_are_passed_over() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    let mut tree = Tree::new();
    tree.driver().nvrtc();
    for folder in ["/usr/lib64", "/usr/local", "/dev", "/proc/driver/nvidia/gpus"] {
        let folder = tree.path(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(OsStr::from_bytes(b"libcudnn\xff.so.9")), "").unwrap();
    }
    let odd = tree.roots.root.join(OsStr::from_bytes(b"odd\xfe"));
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join("libnvrtc.so.11.8.89"), elf(THIS_MACHINE.unwrap_or(0))).unwrap();
    let value = OsStr::from_bytes(b"/odd\xfe").to_owned();
    tree.roots.variables.insert("LD_LIBRARY_PATH", value);
    let codes = tree.codes();
    assert_eq!(codes, ["nvrtc_builtins_missing", "several_versions"], "{:#?}", tree.findings());
}

/// Root reads everything; where this is root, a file in place of a folder is what can be tried.
#[cfg(unix)]
#[test]
fn what_may_not_be_read_is_said() {
    use std::os::unix::fs::PermissionsExt as _;

    let mut tree = Tree::new();
    tree.library("/usr/lib64/libnvrtc.so.12").file("/home/me/file", "");
    tree.variable("LD_LIBRARY_PATH", "/home/me/file:/usr/lib64");
    let folder = tree.path("/usr/lib64");
    let allow = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
    allow(0o000);
    let is_root = fs::read_dir(&folder).is_ok();
    let codes = tree.codes();
    allow(0o755);
    let expected = if is_root { "nvrtc_builtins_missing" } else { "unreadable_folder" };
    assert_eq!(codes, [expected, "no_gpu"]);
}

#[test]
fn the_kernels_side_is_read() {
    let mut tree = Tree::new();
    tree.driver();
    let kernel = KernelDriver::read(&tree.roots);
    assert_eq!(kernel.version.unwrap().to_string(), "550.54.14");
    assert_eq!(kernel.gpus, ["NVIDIA H200"]);
    assert_eq!(kernel.device_nodes, ["nvidia-uvm", "nvidia0", "nvidiactl"]);
    assert!(!kernel.is_wsl && !kernel.is_container);
}

#[test]
fn names_of_libraries() {
    let parse = |name| Kind::of_name(name).map(|(kind, version)| format!("{kind} {version}"));
    for (name, expected) in [
        ("libcuda.so.1", Some("libcuda 1")),
        ("libnvrtc.so.12.4.127", Some("NVRTC 12.4.127")),
        ("libnvrtc-builtins.so", Some("NVRTC builtins ?")),
        ("libcudnn.so.9", Some("cuDNN 9")),
        ("libcudnn_graph.so.9.1.0", Some("cuDNN graph 9.1.0")),
        ("libcublasLt.so.13", Some("cuBLASLt 13")),
        ("libcublas.so.13", None),
        ("libcudart.so.12", None),
        ("libcudadebugger.so.1", None),
        ("libcudnn_static_v9.a", None),
        ("libnvrtc.alt.so.12", None),
        ("libnvrtc.so.12.x", None),
        ("libnvrtc.so.", None),
        ("libnvrtc.so.12.99999999999", None),
        ("nvrtc.so", None),
        ("", None),
    ] {
        assert_eq!(parse(name).as_deref(), expected, "{name}");
    }
}
