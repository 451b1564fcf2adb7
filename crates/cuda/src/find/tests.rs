//! What is found, where, by which name.

use super::fixtures::{PACKAGES, Tree, loader_cache};
use super::{Kind, Source};

const TOOLKIT: &str = "/usr/local/cuda-12.4/lib64";

fn new() -> (tempfile::TempDir, Tree) {
    let folder = tempfile::tempdir().unwrap();
    let tree = Tree::new(folder.path());
    (folder, tree)
}

/// What is found of a library: version, package, place.
#[cfg(unix)]
#[test]
fn one_file_is_one_library_however_many_names_it_has() {
    let (_folder, mut tree) = new();
    tree.libraries(TOOLKIT, &["libnvrtc.so.12.4.127", "libnvrtc-builtins.so.12.4.127"]);
    tree.link("/usr/local/cuda", "cuda-12.4").variable("CUDA_HOME", "/usr/local/cuda");
    tree.link(&format!("{TOOLKIT}/libnvrtc.so.12"), "libnvrtc.so.12.4.127");
    tree.link(&format!("{TOOLKIT}/libnvrtc.so"), "libnvrtc.so.12");
    tree.file("/etc/ld.so.cache", loader_cache(&["/usr/local/cuda/lib64/libnvrtc.so.12"], true));
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
    let (_folder, mut tree) = new();
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
    ("/srv/lib", &[("FRAZIL_NVRTC", "/srv/lib")], Some((Source::Named, false))),
    ("/srv/lib", &[("FRAZIL_NVRTC", "/srv/lib/libnvrtc.so.12")], Some((Source::Named, false))),
    ("/usr/lib64", &[("FRAZIL_NVRTC", "/usr/lib64")], Some((Source::LoaderFolder, true))),
];

#[test]
fn places_where_a_library_may_lie() {
    for (folder, variables, expected) in PLACES {
        let (_folder, mut tree) = new();
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
    let (_folder, mut tree) = new();
    tree.file("/opt/py/bin/python3.12", "")
        .link("/work/env/bin/python3", "../../../opt/py/bin/python3.12");
    tree.library("/work/env/lib/python3.12/site-packages/nvidia/a/lib/libnvrtc.so.12");
    tree.library("/opt/py/lib/python3.12/site-packages/nvidia/b/lib/libcudnn.so.9");
    tree.variable("PATH", "/bin:/work/env/bin");
    let found = tree.search();
    assert_eq!((found.of(Kind::Nvrtc).count(), found.of(Kind::Cudnn).count()), (1, 1));
}

/// With pyenv, the python on the path is a script.
#[test]
fn the_pythons_of_pyenv_are_looked_into() {
    let (_folder, mut tree) = new();
    tree.file("/home/me/.pyenv/shims/python3", "#!/usr/bin/env bash\n");
    let packages = "/home/me/.pyenv/versions/3.11.7/lib/python3.11/site-packages";
    tree.library(&format!("{packages}/nvidia/cu13/lib/libnvrtc.so.13"));
    assert_eq!(tree.search().of(Kind::Nvrtc).count(), 0);
    tree.variable("PATH", "/home/me/.pyenv/shims:/usr/bin");
    assert_eq!(tree.search().of(Kind::Nvrtc).next().unwrap().source, Source::Python);
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
