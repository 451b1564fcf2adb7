//! `ld.so.cache`: what the loader of glibc finds by name, without running it.
//!
//! Format: `sysdeps/generic/dl-cache.h` of glibc, `struct cache_file_new`. A file may begin with a
//! table of the older format, which the newer one follows on the next multiple of 8.

use std::ffi::OsString;
use std::path::PathBuf;

const NEW: &[u8] = b"glibc-ld.so.cache1.1";
const OLD: &[u8] = b"ld.so-1.7.0";
/// Bytes before the entries of the newer format, and bytes of one.
const NEW_HEADER: usize = 48;
const NEW_ENTRY: usize = 24;
/// The same of the older format.
const OLD_HEADER: usize = 16;
const OLD_ENTRY: usize = 12;

/// Files that the cache names, in its order. What is not understood is left out: the folders that
/// it was made from are searched as well.
pub(super) fn paths(bytes: &[u8]) -> Vec<PathBuf> {
    read(bytes).unwrap_or_default()
}

fn read(bytes: &[u8]) -> Option<Vec<PathBuf>> {
    let table = if bytes.starts_with(OLD) {
        let count = number(bytes, OLD_HEADER - 4)?;
        let end = count.checked_mul(OLD_ENTRY)?.checked_add(OLD_HEADER)?;
        bytes.get(end.checked_next_multiple_of(8)?..)?
    } else {
        bytes
    };
    if !table.starts_with(NEW) {
        return None;
    }
    let count = number(table, NEW.len())?;
    let entries = table.get(NEW_HEADER..)?.chunks_exact(NEW_ENTRY).take(count);
    // An entry: flags, then where the name and the path begin, from the start of this table.
    let path = |entry: &[u8]| text(table, number(entry, 8)?);
    Some(entries.filter_map(path).collect())
}

/// The 32-bit number there. The cache is in the byte order of its computer.
fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    usize::try_from(u32::from_ne_bytes(*bytes)).ok()
}

/// The text that begins there and ends before a zero.
fn text(bytes: &[u8], at: usize) -> Option<PathBuf> {
    let text = bytes.get(at..)?;
    let text = &text[..text.iter().position(|&byte| byte == 0)?];
    #[cfg(unix)]
    let text: OsString = std::os::unix::ffi::OsStringExt::from_vec(text.to_vec());
    #[cfg(not(unix))]
    let text: OsString = String::from_utf8(text.to_vec()).ok()?.into();
    Some(text.into())
}

/// Caches of computers that are not here.
#[cfg(any(test, feature = "fixtures"))]
pub(super) mod fixtures {
    use super::*;

    /// A cache that names these files, as `ldconfig` writes it; with a table of the older format
    /// before it, or without.
    ///
    /// # Panics
    ///
    /// If it would not fit 32 bits.
    pub fn loader_cache(paths: &[&str], with_old: bool) -> Vec<u8> {
        let mut strings = Vec::new();
        let mut entries = Vec::new();
        let strings_at = NEW_HEADER + NEW_ENTRY * paths.len();
        let mut place = |text: &str| {
            let at = u32::try_from(strings_at + strings.len()).expect("caches of tests are small");
            strings.extend(text.bytes().chain([0]));
            at.to_ne_bytes()
        };
        for path in paths {
            let name = place(path.rsplit('/').next().unwrap_or(path));
            entries
                .extend([3_u32.to_ne_bytes(), name, place(path), [0; 4], [0; 4], [0; 4]].concat());
        }
        let mut bytes = Vec::new();
        if with_old {
            // Three entries of the older format, and a gap.
            bytes.extend([OLD, &[0], &3_u32.to_ne_bytes()].concat());
            bytes.resize((OLD_HEADER + 3 * OLD_ENTRY).next_multiple_of(8), 0xaa);
        }
        let count = u32::try_from(paths.len()).expect("caches of tests are small").to_ne_bytes();
        let size = u32::try_from(strings.len()).expect("caches of tests are small").to_ne_bytes();
        bytes.extend([NEW, &count, &size, &[0; NEW_HEADER - 28], &entries, &strings].concat());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::fixtures::loader_cache as cache;
    use super::*;

    #[test]
    fn both_formats_are_read() {
        let files = ["/usr/lib/libcuda.so.1", "/opt/x/libnvrtc.so.12"];
        for with_old in [false, true] {
            assert_eq!(paths(&cache(&files, with_old)), files.map(PathBuf::from));
        }
    }

    #[test]
    fn a_broken_cache_names_what_is_whole() {
        let whole = cache(&["/usr/lib/libcuda.so.1", "/usr/lib/libnvrtc.so.12"], false);
        for end in 0..whole.len() {
            assert!(paths(&whole[..end]).len() < 2, "{end}");
        }
        let mut far = whole.clone();
        far[NEW_HEADER + 8..][..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(paths(&far), [PathBuf::from("/usr/lib/libnvrtc.so.12")]);
        let mut many = whole;
        many[NEW.len()..][..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert!(paths(&many).len() >= 2);
        assert!(paths(b"ld.so-1.7.0\0\xff\xff\xff\xff").is_empty());
    }

    /// Where this computer has a cache, it names files that `ldconfig` made it from.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_cache_of_this_computer_is_read() {
        let Ok(bytes) = std::fs::read("/etc/ld.so.cache") else {
            eprintln!("skipped: this computer has no cache");
            return;
        };
        let paths = paths(&bytes);
        let there = paths.iter().filter(|path| path.exists()).count();
        assert!(there > 0 && there * 10 >= paths.len() * 9, "{there} of {} exist", paths.len());
    }
}
