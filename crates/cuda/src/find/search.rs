//! Which libraries lie where. Reads folders, links, the loader's cache and first bytes of files.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::library::{Broken, Kind, Library, Numbers, is_of_this_arch};
use super::loader_cache;
use super::roots::{Place, Roots, Source};

/// What a search has found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// One entry a file, however many names lead to it, in the order of the places.
    pub libraries: Vec<Library>,
    /// Names that lead to no library, and why.
    pub broken: Vec<(PathBuf, Broken)>,
    /// Folders that are there and cannot be read, and why.
    pub unreadable: Vec<(PathBuf, String)>,
    /// Folders that were looked into or are not there, in order, without repetition.
    pub looked: Vec<PathBuf>,
    /// Folders of stand-ins for linkers among those of the loader: no program runs with them.
    pub stubs: Vec<PathBuf>,
}

/// Packages of Python by the files that they brought.
type Packages = BTreeMap<PathBuf, (String, Numbers)>;

/// Looks into every place of a file system.
pub fn search(roots: &Roots) -> Found {
    let mut found = Found::default();
    let mut packages: BTreeMap<PathBuf, Packages> = BTreeMap::new();
    let places = roots.places();
    let is_of_variable = |place: &&Place| place.source == Source::LoaderVariable;
    // The loader's own order: the variable, then the cache, then its folders.
    let (first, rest): (Vec<&Place>, Vec<&Place>) = places.iter().partition(is_of_variable);
    for place in first {
        found.look_into(place, &mut packages);
    }
    let cache = fs::read(roots.at("/etc/ld.so.cache")).unwrap_or_default();
    for path in loader_cache::paths(&cache) {
        found.look_at(&roots.at(path), Source::LoaderCache, None);
    }
    for place in rest {
        found.look_into(place, &mut packages);
    }
    found
}

/// Looks into one folder.
pub fn search_folder(folder: &Path) -> Found {
    let mut found = Found::default();
    found.look_into(&Place::new(Source::Named, folder.to_owned()), &mut BTreeMap::new());
    found
}

impl Found {
    /// Libraries for this processor, of that kind.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Library> {
        let libraries = self.libraries.iter();
        libraries.filter(move |library| library.kind == kind && library.is_of_this_arch)
    }

    /// The driver's library, as installed for every program.
    pub fn drivers(&self) -> impl Iterator<Item = &Library> {
        self.of(Kind::Driver).filter(|library| library.source != Source::Compat)
    }

    fn look_into(&mut self, place: &Place, packages: &mut BTreeMap<PathBuf, Packages>) {
        if !self.looked.contains(&place.folder) {
            self.looked.push(place.folder.clone());
        }
        let names = match file_names(&place.folder) {
            Ok(names) => names,
            Err(error) => {
                // Most folders are not there, and a variable may name a file.
                let is_absent =
                    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
                if !is_absent && !self.unreadable.iter().any(|(known, _)| *known == place.folder) {
                    self.unreadable.push((place.folder.clone(), error.to_string()));
                }
                return;
            }
        };
        if names.iter().any(|name| Kind::of_name(name).is_some()) {
            let is_stub = fs::canonicalize(&place.folder).is_ok_and(|real| real.ends_with("stubs"));
            if is_stub {
                if !self.stubs.contains(&place.folder) {
                    self.stubs.push(place.folder.clone());
                }
                return;
            }
        }
        for name in names {
            let brought = place.packages.as_ref().map(|folder| {
                packages.entry(folder.clone()).or_insert_with(|| packages_of(folder))
            });
            self.look_at(
                &place.folder.join(name),
                place.source,
                brought.map(|packages| &*packages),
            );
        }
    }

    /// A file whose name may be that of a library.
    fn look_at(&mut self, path: &Path, source: Source, packages: Option<&Packages>) {
        let name = path.file_name().and_then(|name| name.to_str());
        let Some((kind, mut version)) = name.and_then(Kind::of_name) else { return };
        let file = match real_file(path) {
            Ok(file) => file,
            Err(broken) => {
                if !self.broken.iter().any(|(known, _)| known == path) {
                    self.broken.push((path.to_owned(), broken));
                }
                return;
            }
        };
        let real_name = file.0.file_name().and_then(|name| name.to_str());
        if let Some((_, longer)) = real_name.and_then(Kind::of_name) {
            version = version.max_by_depth(longer);
        }
        if !kind.is_version(&version) {
            version = Numbers::default();
        }
        let package = packages.and_then(|packages| packages.get(path)).cloned();
        if let Some((_, of_package)) = &package
            && version.may_be(of_package)
        {
            version = version.max_by_depth(of_package.clone());
        }
        // Places of the loader come first, so that what it finds is known for that already.
        if let Some(known) = self.libraries.iter_mut().find(|known| known.path == file.0) {
            known.version = std::mem::take(&mut known.version).max_by_depth(version);
            known.package = known.package.take().or(package);
            return;
        }
        let ((path, is_of_this_arch), on_loader_path) = (file, source.is_of_loader());
        let library =
            Library { kind, path, version, package, source, on_loader_path, is_of_this_arch };
        self.libraries.push(library);
    }
}

impl Numbers {
    /// The one that knows more.
    fn max_by_depth(self, other: Self) -> Self {
        if other.depth() > self.depth() { other } else { self }
    }
}

/// The file that a path leads to, and whether it is for this processor.
fn real_file(path: &Path) -> Result<(PathBuf, bool), Broken> {
    let real = fs::canonicalize(path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => Broken::Unreadable(error.to_string()),
        _ => Broken::Missing,
    })?;
    let is_of_this_arch = is_of_this_arch(&real)?;
    Ok((real, is_of_this_arch))
}

/// Names in a folder that are text, sorted: no library that is looked for has another name.
fn file_names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(folder)?.filter_map(Result::ok);
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

/// Files that packages of NVIDIA and torch brought into a folder of packages: each `RECORD` lists
/// them (Python packaging, "Recording installed projects").
fn packages_of(folder: &Path) -> Packages {
    let mut packages = Packages::new();
    for info in file_names(folder).unwrap_or_default() {
        let of_package = info.strip_suffix(".dist-info").and_then(|stem| stem.split_once('-'));
        let Some((name, version)) = of_package else { continue };
        if !(name.starts_with("nvidia") || name == "torch") {
            continue;
        }
        let Ok(record) = fs::read_to_string(folder.join(&info).join("RECORD")) else { continue };
        // A local part may follow the numbers: `2.6.0+cu124`.
        let numbers = version.split('+').next().and_then(Numbers::parse).unwrap_or_default();
        let package = (name.replace('_', "-"), numbers);
        let files = record.lines().filter_map(|line| line.split(',').next());
        for file in files.filter(|file| file.contains("/lib/lib")) {
            packages.insert(folder.join(file), package.clone());
        }
    }
    packages
}
