//! What Linux says of this computer in its files; nothing where another system has no such files.
//!
//! Every function is given the way to a file's text, empty where there is no file.

/// Files of the group of processes that this one is in, in the second and the first version of
/// control groups: the most memory, memory in use, and what it is used for.
const GROUPS: [[&str; 3]; 2] = [
    ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat"],
    [
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
    ],
];

/// Name of the processor: `model name : AMD EPYC` of x86; other processors have numbers there, or
/// nothing.
pub(crate) fn processor(text: impl Fn(&str) -> String) -> Option<String> {
    let info = text("/proc/cpuinfo");
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    let name = line.split_once(':')?.1.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Memory of the computer, in bytes.
pub(crate) fn memory_bytes(text: impl Fn(&str) -> String) -> Option<u64> {
    kibibytes(&text("/proc/meminfo"), "MemTotal:")
}

/// What of it is free or can be freed, in bytes, whatever the limit of this process.
pub(crate) fn available_bytes(text: impl Fn(&str) -> String) -> Option<u64> {
    kibibytes(&text("/proc/meminfo"), "MemAvailable:")
}

/// Most memory that the container, or the group of this process, may use, in bytes.
pub(crate) fn memory_limit_bytes(text: impl Fn(&str) -> String) -> Option<u64> {
    let limit = GROUPS.iter().find_map(|[max, ..]| text(max).trim().parse().ok());
    // Where there is none, a number larger than any memory may stand for it.
    limit.filter(|&limit| memory_bytes(&text).is_none_or(|all| limit < all))
}

/// What this process may still take, in bytes: of the computer, and of its group.
pub(crate) fn free_bytes(text: impl Fn(&str) -> String) -> Option<u64> {
    let of_group = memory_limit_bytes(&text).and_then(|limit| {
        GROUPS.iter().find_map(|[_, current, stat]| {
            let used: u64 = text(current).trim().parse().ok()?;
            // Files that were read once are given up first.
            let stat = text(stat);
            let files = stat.lines().find_map(|line| line.strip_prefix("inactive_file "));
            let files = files.and_then(|files| files.trim().parse().ok()).unwrap_or(0);
            Some(limit.saturating_sub(used.saturating_sub(files)))
        })
    });
    available_bytes(&text).into_iter().chain(of_group).min()
}

/// The number of a line `MemTotal:  24684084 kB`, which means KiB, in bytes.
fn kibibytes(meminfo: &str, name: &str) -> Option<u64> {
    let value = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts by path; other files are not there.
    fn files<'a>(texts: &'a [(&str, &str)]) -> impl Fn(&str) -> String + Copy + 'a {
        |path| texts.iter().find(|(name, _)| *name == path).map_or("", |(_, text)| text).to_owned()
    }

    #[test]
    fn what_the_system_says_is_read() {
        let text = [
            ("/proc/cpuinfo", "processor\t: 0\nmodel name\t: AMD EPYC 9654\nflags\t: avx2\n"),
            ("/proc/meminfo", "MemTotal:       24684084 kB\nMemFree:  1 kB\nMemAvailable: 2 MB\n"),
        ];
        assert_eq!(processor(files(&text)).as_deref(), Some("AMD EPYC 9654"));
        assert_eq!(memory_bytes(files(&text)), Some(24_684_084 * 1024));
        assert_eq!(available_bytes(files(&text)), None);
        let text = [
            ("/proc/cpuinfo", "processor\t: 0\nCPU part\t: 0xd4f\n"),
            ("/proc/meminfo", "MemTotal: 18446744073709551615 kB"),
        ];
        assert_eq!((processor(files(&text)), memory_bytes(files(&text))), (None, None));
        assert_eq!((processor(files(&[])), free_bytes(files(&[]))), (None, None));
    }

    #[test]
    fn a_container_has_less_memory_than_its_computer() {
        const PLENTY: (&str, &str) = ("/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 900 kB\n");
        for (group, limit, free) in [
            (&[][..], None, 900 * 1024),
            (&[(GROUPS[0][0], "max\n")], None, 900 * 1024),
            (&[(GROUPS[1][0], "9223372036854771712\n")], None, 900 * 1024),
            (&[(GROUPS[0][0], "4096\n"), (GROUPS[0][1], "1000\n")], Some(4096), 3096),
            (
                &[
                    (GROUPS[1][0], "4096\n"),
                    (GROUPS[1][1], "4096\n"),
                    (GROUPS[1][2], "total_inactive_file 1\ninactive_file 96\n"),
                ],
                Some(4096),
                96,
            ),
            (&[(GROUPS[0][0], "4096\n"), (GROUPS[0][1], "5000\n")], Some(4096), 0),
        ] {
            let text = [&[PLENTY], group].concat();
            assert_eq!(memory_limit_bytes(files(&text)), limit, "{text:?}");
            assert_eq!(free_bytes(files(&text)), Some(free), "{text:?}");
        }
    }
}
