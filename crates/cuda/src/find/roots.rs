//! Where to look: a file system, and the variables that point into it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// A file system that need not be this computer's, so that tests can build one.
#[derive(Clone, Debug)]
pub struct Roots {
    /// Folder that stands for `/`.
    pub root: PathBuf,
    /// Folder, under that root, from which relative paths start.
    pub current: PathBuf,
    /// Variables that are set, of those that loaders, toolkits and Python read, and
    /// [`NVRTC_VARIABLE`].
    pub variables: BTreeMap<&'static str, OsString>,
}

/// What loaders, toolkits and Python read to find libraries.
const VARIABLES: [&str; 8] = [
    NVRTC_VARIABLE,
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "HOME",
    "PATH",
];

/// Names NVRTC: its file, or the folder that it lies in. It says where the compiler is and nothing
/// else: where it is set, no other is taken.
pub const NVRTC_VARIABLE: &str = "FRAZIL_NVRTC";

/// Folders that the loader of glibc searches by itself, and where drivers of containers, of WSL and
/// of NixOS are put.
const SYSTEM: [&str; 12] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/local/nvidia/lib",
    "/usr/local/nvidia/lib64",
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
];

/// How many of [`SYSTEM`] the loader searches by itself.
const NUM_OF_LOADER: usize = 8;

/// Why a folder is looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// `LD_LIBRARY_PATH`.
    LoaderVariable,
    /// The loader's cache, `ld.so.cache`.
    LoaderCache,
    /// A folder that the loader searches by itself.
    LoaderFolder,
    /// A folder that drivers are put into.
    DriverFolder,
    /// What [`NVRTC_VARIABLE`] names.
    Named,
    /// A CUDA toolkit.
    Toolkit,
    /// The driver of another version that a toolkit brings for itself.
    Compat,
    /// A conda environment.
    Conda,
    /// Packages of Python.
    Python,
}

impl Source {
    /// Whether a library there is found by its name alone.
    pub fn is_of_loader(self) -> bool {
        matches!(self, Self::LoaderVariable | Self::LoaderCache | Self::LoaderFolder)
    }
}

/// A folder to look into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) source: Source,
    pub(super) folder: PathBuf,
    /// For Python: the folder of packages that this one lies in.
    pub(super) packages: Option<PathBuf>,
}

impl Place {
    pub(super) fn new(source: Source, folder: PathBuf) -> Self {
        Self { source, folder, packages: None }
    }
}

impl Roots {
    /// This computer and the variables of this process.
    pub fn of_this_computer() -> Self {
        let set = |name| Some((name, std::env::var_os(name).filter(|value| !value.is_empty())?));
        Self {
            root: "/".into(),
            current: std::env::current_dir().unwrap_or_else(|_| "/".into()),
            variables: VARIABLES.into_iter().filter_map(set).collect(),
        }
    }

    /// A path of the file system that is looked at.
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let absolute = self.current.join(path);
        match absolute.strip_prefix("/") {
            Ok(inner) => self.root.join(inner),
            Err(_) => absolute,
        }
    }

    fn variable(&self, name: &str) -> Option<PathBuf> {
        self.variables.get(name).map(|value| self.at(value))
    }

    /// What [`NVRTC_VARIABLE`] names, there or not.
    pub fn named_nvrtc(&self) -> Option<PathBuf> {
        self.variable(NVRTC_VARIABLE)
    }

    /// Folders of a variable that holds several; an empty one is the current folder.
    fn list(&self, name: &str) -> Vec<PathBuf> {
        let value = self.variables.get(name);
        let folders = value.into_iter().flat_map(|value| std::env::split_paths(value));
        folders.map(|folder| self.at(folder)).collect()
    }

    /// Every folder to look into, those of the loader first and in its order.
    pub(super) fn places(&self) -> Vec<Place> {
        let mut places: Vec<Place> = self
            .list("LD_LIBRARY_PATH")
            .into_iter()
            .map(|folder| Place::new(Source::LoaderVariable, folder))
            .collect();
        for (at, folder) in SYSTEM.into_iter().enumerate() {
            let of_loader = at < NUM_OF_LOADER;
            let source = if of_loader { Source::LoaderFolder } else { Source::DriverFolder };
            places.push(Place::new(source, self.at(folder)));
        }
        if let Some(named) = self.named_nvrtc() {
            let folder = if named.is_dir() { Some(&*named) } else { named.parent() };
            places.extend(folder.map(|folder| Place::new(Source::Named, folder.to_owned())));
        }
        places.extend(self.toolkits().iter().flat_map(|toolkit| places_of_toolkit(toolkit)));
        if let Some(conda) = self.variable("CONDA_PREFIX") {
            places.push(Place::new(Source::Conda, conda.join("lib")));
        }
        places.extend(self.package_folders().iter().flat_map(|folder| places_of_packages(folder)));
        places
    }

    /// Folders of CUDA toolkits, there or not.
    fn toolkits(&self) -> Vec<PathBuf> {
        let mut toolkits: Vec<PathBuf> =
            ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(|name| self.variable(name)).collect();
        toolkits.extend([self.at("/usr/local/cuda"), self.at("/opt/cuda")]);
        toolkits.extend(children(&self.at("/usr/local"), |name| name.starts_with("cuda-")));
        toolkits
    }

    /// Folders that hold packages of Python: of the active environment, the user and the system.
    fn package_folders(&self) -> Vec<PathBuf> {
        let mut prefixes: Vec<PathBuf> =
            ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(|name| self.variable(name)).collect();
        let python = self.list("PATH").into_iter().map(|folder| folder.join("python3"));
        if let Some(python) = python.into_iter().find(|python| python.exists()) {
            // An environment's own python is a link to the one that it was made with.
            let real = fs::canonicalize(&python).ok();
            let prefix = |python: &PathBuf| Some(python.parent()?.parent()?.to_owned());
            // pyenv puts a script in place of each program, into a folder beside its pythons. Which
            // of them it would start is not asked: any NVRTC is as good as another's.
            if let Some(pyenv) = python.parent().filter(|folder| folder.ends_with("shims")) {
                prefixes.extend(children(&pyenv.with_file_name("versions"), |_| true));
            }
            prefixes.extend([Some(python), real].iter().flatten().filter_map(prefix));
        }
        prefixes.extend(self.variable("HOME").map(|home| home.join(".local")));
        prefixes.extend([self.at("/usr/local"), self.at("/usr")]);
        let mut folders = Vec::new();
        for prefix in &prefixes {
            for lib in ["lib", "lib64"] {
                let versions = children(&prefix.join(lib), |name| name.starts_with("python3"));
                for version in versions {
                    folders.push(version.join("site-packages"));
                    folders.push(version.join("dist-packages"));
                }
            }
        }
        folders
    }
}

fn places_of_toolkit(toolkit: &Path) -> Vec<Place> {
    let mut places = vec![Place::new(Source::Compat, toolkit.join("compat"))];
    let targets = children(&toolkit.join("targets"), |_| true);
    let folders = targets.into_iter().chain([toolkit.to_owned()]);
    for folder in folders {
        for lib in ["lib64", "lib"] {
            places.push(Place::new(Source::Toolkit, folder.join(lib)));
        }
    }
    places
}

/// The wheels of NVIDIA put libraries into `nvidia/<part>/lib`, those of torch into `torch/lib`.
fn places_of_packages(packages: &Path) -> Vec<Place> {
    let mut folders = children(&packages.join("nvidia"), |_| true);
    folders.push(packages.join("torch"));
    let place = |folder: PathBuf| Place {
        source: Source::Python,
        folder: folder.join("lib"),
        packages: Some(packages.to_owned()),
    };
    folders.into_iter().map(place).collect()
}

/// Entries of a folder whose name is of that kind, sorted; none where it cannot be read, which the
/// search says of the folders that matter.
fn children(folder: &Path, is_meant: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let meant = entries.filter(|entry| entry.file_name().to_str().is_some_and(&is_meant));
    let mut children: Vec<PathBuf> = meant.map(|entry| entry.path()).collect();
    children.sort();
    children
}
