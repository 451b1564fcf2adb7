//! The archive: what `tar` and `xz` of the system make.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Failure;

/// Packs a folder, gives the size of the archive in bytes.
///
/// Test programs hold much of the same code, so the dictionary spans them all. Names are sorted and
/// owners and times left out: the same files give the same archive.
pub(super) fn pack(folder: &Path, archive: &Path) -> Result<u64, Failure> {
    let fault = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| format!("{what}: {error}")
    };
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Err(format!("{} is no folder to pack", folder.display()));
    };
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--mtime=@0", "--owner=0", "--group=0"]);
    tar.arg("--numeric-owner").arg("--directory").arg(parent).arg(name);
    let mut tar = tar.stdout(Stdio::piped()).spawn().map_err(fault("tar"))?;
    let out = File::create(archive).map_err(fault(&archive.display().to_string()))?;
    let mut xz = Command::new("xz");
    xz.args(["--compress", "--stdout", "--threads=1", "--lzma2=preset=9,dict=256MiB"]);
    let packed = xz.stdin(tar.stdout.take().map_or_else(Stdio::null, Stdio::from)).stdout(out);
    let packed = packed.status().map_err(fault("xz"))?;
    let read = tar.wait().map_err(fault("tar"))?;
    if !read.success() || !packed.success() {
        return Err(format!("tar: {read}, xz: {packed}"));
    }
    fs::metadata(archive).map(|found| found.len()).map_err(fault("the archive"))
}
