//! What of a search becomes a finding, and how it goes on past what is odd.

use std::fs;

use frazil_cuda::find::fixtures::PACKAGES;

use super::super::driver::KernelDriver;
use super::{TOOLKIT, Tree};

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
    fs::copy(tree.path(TOOLKIT).join("libnvrtc.so.12.4.127"), odd.join("libnvrtc.so.11.8.89"))
        .unwrap();
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
