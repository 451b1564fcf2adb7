//! What is removed from the folder of a cache, and when.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::files::Status;
use super::{DiskCache, entry};

/// How the name of an entry ends, behind its key.
pub(super) const ENTRY: &str = ".kernel";

/// How the name of a temporary file ends; it begins with the key and a dot.
pub(super) const TEMPORARY: &str = ".tmp";

/// A temporary file of this age belongs to no writer any more: to write one takes milliseconds.
const LEFT_AFTER: Duration = Duration::from_secs(60 * 60);

/// A file of the folder, as its name tells. Others are nobody's business here.
#[derive(Debug, PartialEq, Eq)]
enum Named {
    Entry,
    Temporary,
    Other,
}

impl DiskCache {
    /// Removes what dead writers left, and the entries that went unused for longest, until another one
    /// of so many bytes fits. What cannot be removed stays.
    pub(super) fn make_room(&self, bytes: u64) {
        let Ok(files) = self.files.list(&self.folder) else { return };
        let now = SystemTime::now();
        let mut entries: Vec<(PathBuf, Status)> = Vec::new();
        for (path, status) in files.into_iter().filter(|(_, status)| status.is_file) {
            match named(&path) {
                Named::Entry => entries.push((path, status)),
                Named::Temporary if is_left(&status, now) => drop(self.files.remove(&path)),
                Named::Temporary | Named::Other => {}
            }
        }
        entries.sort_by_key(|(_, status)| status.modified);
        let sizes = entries.iter().map(|(_, status)| status.bytes);
        let mut total = sizes.fold(bytes, u64::saturating_add);
        for (path, status) in entries {
            if total <= self.max_bytes {
                break;
            }
            if self.files.remove(&path).is_ok() {
                total = total.saturating_sub(status.bytes);
            }
        }
    }
}

/// Whether the writer of a temporary file is long gone. One from the future, by a clock that was set
/// back or by another computer's, is not.
fn is_left(status: &Status, now: SystemTime) -> bool {
    now.duration_since(status.modified).is_ok_and(|age| age >= LEFT_AFTER)
}

fn named(path: &Path) -> Named {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let has_key = |text: &str| entry::key_of(text).is_some();
    if name.strip_suffix(ENTRY).is_some_and(has_key) {
        return Named::Entry;
    }
    let stem = name.strip_suffix(TEMPORARY).and_then(|stem| stem.split_once('.'));
    if stem.is_some_and(|(key, _)| has_key(key)) { Named::Temporary } else { Named::Other }
}
