//! Which glibc a program needs.

use std::fmt::{Display, Formatter, Result};

/// A version of glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub(super) u32, pub(super) u32);

impl Display for Version {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// The newest version among the versions of symbols that a program names; `None` where it names
/// none. The names stand as text in its string table: `GLIBC_2.34`, or `GLIBC_2.2.5`.
pub(super) fn newest(program: &[u8]) -> Option<Version> {
    const NAME: &[u8] = b"\0GLIBC_";
    let found = program.windows(NAME.len()).enumerate().filter(|(_, bytes)| *bytes == NAME);
    let versions = found.filter_map(|(at, _)| {
        let rest = &program[at + NAME.len()..];
        let text = rest.split(|byte| *byte == 0).next()?;
        let mut numbers = std::str::from_utf8(text).ok()?.split('.').map(str::parse);
        Some(Version(numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    versions.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_found() {
        let table = b"\0memcpy\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.4\0GLIBC_PRIVATE\0libc.so.6\0";
        assert_eq!(newest(table), Some(Version(2, 34)));
        assert_eq!(newest(b"\0memcpy\0"), None);
        assert!(Version(2, 9) < Version(2, 35) && Version(2, 36) > Version(2, 35));
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn this_program_needs_some_version() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(newest(&program).is_some_and(|version| version.0 == 2));
    }
}
