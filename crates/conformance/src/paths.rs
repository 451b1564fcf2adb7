//! Where a test finds what lies beside it, also on another machine than it was built on.

use std::path::PathBuf;

/// The path that cargo calls so: the folder of the package (`CARGO_MANIFEST_DIR`), one of its
/// programs (`CARGO_BIN_EXE_name`), or a folder for what tests write (`CARGO_TARGET_TMPDIR`).
///
/// Whoever runs the test says it at run time, as cargo does and `xtask test --prebuilt`, which runs
/// tests where there is no cargo; a test program that is started by hand takes what it was built
/// with. `env!` alone would name a path of the machine that built it.
#[macro_export]
macro_rules! cargo_path {
    ($name:literal) => {
        $crate::paths::told_or_built($name, env!($name))
    };
}

/// The path in a variable, else the one known when this was built. [`cargo_path!`] calls it.
#[doc(hidden)]
pub fn told_or_built(variable: &str, built: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| built.into(), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_what_the_runner_says_else_what_was_built() {
        let here = cargo_path!("CARGO_MANIFEST_DIR");
        assert!(here.join("src/paths.rs").is_file(), "{}", here.display());
        assert_eq!(told_or_built("FRAZIL_NO_SUCH_VARIABLE", "/built"), PathBuf::from("/built"));
        let told = std::env::var_os("PATH").unwrap();
        assert_eq!(told_or_built("PATH", "/built").as_os_str(), told);
    }
}
