//! Computers without an NVRTC that can be used: what is said of them, and how to get one.

use std::ffi::c_int;
use std::fs;
use std::path::{Path, PathBuf};

use frazil_core::Version;

use super::table::{Code, Table};
use super::{GET_NVRTC, NoNvrtc, Nvrtc, OLDEST_NVRTC, Refusal};
use crate::find::fixtures::Tree;

fn open(tree: &Tree) -> NoNvrtc {
    Nvrtc::open(&tree.roots, None).unwrap_err()
}

/// A library of this computer that is no NVRTC: the one of C, as this process has it.
fn foreign_library() -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let mut paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    paths.find(|path| path.contains("libc.so") || path.contains("libc-")).map(PathBuf::from)
}

#[test]
fn where_there_is_none_the_places_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut tree = Tree::new(folder.path());
    tree.variable("CUDA_HOME", "/opt/mine").variable("LD_LIBRARY_PATH", "/lib/of/me");
    let error = open(&tree);
    let NoNvrtc::Absent { looked } = &error else { panic!("{error}") };
    for place in ["/lib/of/me", "/opt/mine/lib64", "/usr/lib64", "/usr/local/cuda/lib64"] {
        assert!(looked.contains(&tree.path(place)), "{place}: {looked:#?}");
    }
    assert!(error.to_string().contains(GET_NVRTC), "{error}");
}

#[test]
fn what_the_variable_names_is_the_only_one_tried() {
    let folder = tempfile::tempdir().unwrap();
    let mut tree = Tree::new(folder.path());
    tree.library("/usr/lib64/libnvrtc.so.13").file("/empty/readme", "");
    for named in ["/nowhere", "/empty"] {
        tree.variable("FRAZIL_NVRTC", named);
        let path = tree.path(named);
        let error = open(&tree);
        assert_eq!(error, NoNvrtc::Named { path, why: Refusal::NoFile });
        assert!(error.to_string().starts_with("FRAZIL_NVRTC names /"), "{error}");
    }
    tree.file("/x/libnvrtc.so.12", "").variable("FRAZIL_NVRTC", "/x/libnvrtc.so.12");
    let error = open(&tree);
    assert!(matches!(error, NoNvrtc::Named { why: Refusal::Unloadable(_), .. }), "{error}");
    assert!(error.to_string().ends_with("or unset the variable to have it searched"), "{error}");
}

/// The files of the tree are heads of libraries alone, which no loader takes.
#[test]
fn every_file_that_cannot_be_opened_is_told_with_the_loaders_words() {
    let folder = tempfile::tempdir().unwrap();
    let mut tree = Tree::new(folder.path());
    tree.library("/usr/lib64/libnvrtc.so.12.4.127");
    tree.wheel("cu13", "nvidia_cuda_nvrtc", "13.0.88", &["libnvrtc.so.13"]);
    let error = open(&tree);
    let NoNvrtc::Unusable(refused) = &error else { panic!("{error}") };
    let paths: Vec<_> = refused.iter().map(|(path, _)| path.file_name().unwrap()).collect();
    assert_eq!(paths, ["libnvrtc.so.13", "libnvrtc.so.12.4.127"]);
    for (path, why) in refused {
        let Refusal::Unloadable(words) = why else { panic!("{why}") };
        // The loader of glibc names the file and says what is wrong with it.
        let name = path.to_str().unwrap();
        assert!(!cfg!(target_env = "gnu") || words.contains(name), "{words}");
    }
    assert!(error.to_string().contains(GET_NVRTC), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_library_without_the_functions_is_told_by_the_first_it_lacks() {
    let library = foreign_library().expect("this process has a library of C");
    assert_eq!(Nvrtc::at(&library).unwrap_err(), Refusal::Lacks("nvrtcVersion"));
}

/// An `nvrtcVersion` that answers so.
unsafe extern "C" fn version<const MAJOR: c_int, const MINOR: c_int>(
    major: *mut c_int,
    minor: *mut c_int,
) -> Code {
    // SAFETY: both numbers are the caller's to be written.
    unsafe { major.write(MAJOR) };
    // SAFETY: as above.
    unsafe { minor.write(MINOR) };
    0
}

#[test]
fn one_that_is_too_old_is_told_by_its_version_and_asked_nothing_else() {
    let table = Table { version: version::<11, 8>, ..Table::of_none() };
    let error = Nvrtc::of_table(table, Path::new("libnvrtc.so.11.8")).unwrap_err();
    assert_eq!(error, Refusal::TooOld { found: Version::new(11, 8, 0), need: OLDEST_NVRTC });
    let text = error.to_string();
    assert!(text.contains("11.8") && text.contains("12.0"), "{text}");
}

/// Else the first compile would say it, in a log.
#[cfg(target_os = "linux")]
#[test]
fn one_whose_builtins_are_nowhere_is_told_before_it_compiles() {
    let table = Table { version: version::<99, 7>, ..Table::of_none() };
    let error = Nvrtc::of_table(table, Path::new("libnvrtc.so.99.7")).unwrap_err();
    let Refusal::NoBuiltins { name, reason } = &error else { panic!("{error}") };
    assert_eq!(name, "libnvrtc-builtins.so.99.7");
    assert!(!cfg!(target_env = "gnu") || reason.contains("No such file"), "{reason}");
    assert!(error.to_string().contains(name), "{error}");
}

/// A bare name is a file of the current folder, as every other path, and none that the loader finds.
#[cfg(target_os = "linux")]
#[test]
fn a_bare_name_is_not_searched_for() {
    let Err(Refusal::Unloadable(words)) = Nvrtc::at(Path::new("libc.so.6")) else {
        panic!("the loader's own library was taken")
    };
    assert!(!cfg!(target_env = "gnu") || words.contains("/libc.so.6: "), "{words}");
}
