//! Which file is tried first.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use frazil_core::Version;

use crate::find::{Kind, Library, search_folder};

/// Those that a driver can take cubins of first, the newest of them first; then the others. Of two
/// of one version the one found first.
pub(super) fn best_first<'a>(
    libraries: impl Iterator<Item = &'a Library>,
    driver: Option<Version>,
) -> Vec<&'a Library> {
    let is_above = |library: &Library| {
        driver.zip(library.version.major()).is_some_and(|(driver, major)| major > driver.major)
    };
    let mut libraries: Vec<&Library> = libraries.collect();
    libraries.sort_by_key(|library| (is_above(library), Reverse(library.version.as_slice())));
    libraries
}

/// The file that a path names: itself, or the newest NVRTC in a folder.
pub(super) fn named(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        let found = search_folder(path);
        best_first(found.of(Kind::Nvrtc), None).first().map(|library| library.path.clone())
    } else {
        path.is_file().then(|| path.to_owned())
    }
}

/// The name by which NVRTC asks the loader for its builtins; `None` where that was not seen.
pub(super) fn builtins_name(nvrtc: Version) -> Option<String> {
    let Version { major, minor, .. } = nvrtc;
    cfg!(target_os = "linux").then(|| format!("libnvrtc-builtins.so.{major}.{minor}"))
}

/// Builtins in the folder of a library, of its version as far as their names tell it.
pub(super) fn builtins_beside(path: &Path) -> Vec<PathBuf> {
    let found = search_folder(path.parent().unwrap_or(Path::new(".")));
    let name = path.file_name().and_then(|name| name.to_str());
    let version = name.and_then(Kind::of_name).map(|(_, version)| version).unwrap_or_default();
    let builtins = found.of(Kind::NvrtcBuiltins);
    let of_version = builtins.filter(|builtins| builtins.version.may_be(&version));
    of_version.map(|builtins| builtins.path.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::fixtures::Tree;

    const DRIVER_12: Option<Version> = Some(Version::new(12, 4, 0));

    #[test]
    fn the_newest_whose_cubins_the_driver_takes_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let mut tree = Tree::new(folder.path());
        tree.library("/usr/lib64/libnvrtc.so.11.8.89");
        tree.library("/usr/local/cuda-12.4/lib64/libnvrtc.so.12.4.127");
        tree.library("/usr/local/cuda-12.9/lib64/libnvrtc.so.12.9.86");
        tree.wheel("cu13", "nvidia_cuda_nvrtc", "13.5.37", &["libnvrtc.so.13"]);
        let found = tree.search();
        let order = |driver| {
            let libraries = best_first(found.of(Kind::Nvrtc), driver);
            libraries.iter().map(|library| library.version.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(order(None), ["13.5.37", "12.9.86", "12.4.127", "11.8.89"]);
        assert_eq!(order(DRIVER_12), ["12.9.86", "12.4.127", "11.8.89", "13.5.37"]);
        assert_eq!(order(Some(Version::new(11, 4, 0)))[0], "11.8.89");
    }

    #[test]
    fn builtins_of_the_same_version_lie_beside() {
        let folder = tempfile::tempdir().unwrap();
        let mut tree = Tree::new(folder.path());
        let names = [
            "libnvrtc.so.12",
            "libnvrtc.so.11.8.89",
            "libnvrtc-builtins.so.12.2",
            "libnvrtc-builtins.so.11.8.89",
        ];
        tree.libraries("/x", &names);
        let path = |name: &str| tree.path(&format!("/x/{name}"));
        assert_eq!(builtins_beside(&path(names[0])), [path(names[2])]);
        assert_eq!(builtins_beside(&path(names[1])), [path(names[3])]);
        assert_eq!(builtins_beside(&path("other.so")).len(), 2);
    }

    #[test]
    fn a_folder_or_a_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut tree = Tree::new(folder.path());
        tree.libraries("/x", &["libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc-builtins.so.13.0"]);
        tree.file("/empty/readme", "").library("/y/compiler.so");
        let named = |path: &str| named(&tree.path(path));
        assert_eq!(named("/x"), Some(tree.path("/x/libnvrtc.so.13")));
        assert_eq!(named("/x/libnvrtc.so.12"), Some(tree.path("/x/libnvrtc.so.12")));
        assert_eq!(named("/y/compiler.so"), Some(tree.path("/y/compiler.so")));
        assert_eq!((named("/empty"), named("/nowhere")), (None, None));
    }
}
