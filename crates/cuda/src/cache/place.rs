//! Where the cache of a user is.

use std::ffi::OsString;
use std::path::PathBuf;

use super::NoFolder;

/// The folder that the environment and the user's account name.
pub(super) fn of_user() -> Result<PathBuf, NoFolder> {
    folder(|name| std::env::var_os(name), std::env::home_dir())
}

/// `FRAZIL_CACHE`; `frazil` in `XDG_CACHE_HOME`; `.cache/frazil` in the home folder. An empty variable
/// counts as none, and a relative `XDG_CACHE_HOME` does too: the XDG Base Directory Specification 0.8
/// says so.
fn folder(
    variable: impl Fn(&str) -> Option<OsString>,
    home: Option<PathBuf>,
) -> Result<PathBuf, NoFolder> {
    let named = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let own = named("FRAZIL_CACHE");
    let of_caches = || {
        let caches = named("XDG_CACHE_HOME").filter(|path| path.is_absolute());
        caches.map(|path| path.join("frazil"))
    };
    let of_home = || {
        let home = home.filter(|path| path.is_absolute());
        home.map(|path| path.join(".cache").join("frazil"))
    };
    own.or_else(of_caches).or_else(of_home).ok_or(NoFolder)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The variables, the home folder, and the cache's.
    type Row =
        (&'static [(&'static str, &'static str)], Option<&'static str>, Option<&'static str>);

    #[test]
    fn the_nearest_name_wins() {
        let rows: [Row; 9] = [
            (&[], Some("/home/u"), Some("/home/u/.cache/frazil")),
            (&[("XDG_CACHE_HOME", "/x")], Some("/home/u"), Some("/x/frazil")),
            (&[("XDG_CACHE_HOME", "/x")], None, Some("/x/frazil")),
            (&[("XDG_CACHE_HOME", "x")], Some("/home/u"), Some("/home/u/.cache/frazil")),
            (&[("XDG_CACHE_HOME", "")], Some("/home/u"), Some("/home/u/.cache/frazil")),
            (&[("FRAZIL_CACHE", "/c"), ("XDG_CACHE_HOME", "/x")], Some("/home/u"), Some("/c")),
            (&[("FRAZIL_CACHE", ""), ("XDG_CACHE_HOME", "/x")], Some("/home/u"), Some("/x/frazil")),
            (&[], None, None),
            (&[], Some(""), None),
        ];
        for (variables, home, expected) in rows {
            let variable = |name: &str| {
                let found = variables.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| OsString::from(value))
            };
            let found = folder(variable, home.map(PathBuf::from));
            assert_eq!(found.ok(), expected.map(PathBuf::from), "{variables:?} {home:?}");
        }
    }
}
