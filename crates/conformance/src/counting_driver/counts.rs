//! How often each function of the driver was called.

use std::collections::BTreeMap;
use std::fmt;

/// Calls of the driver by name; names without a call are absent.
///
/// A name is that of the symbol where the caller took the function from the library
/// (`cuMemAlloc_v2`), and the one asked for where it asked `cuGetProcAddress` (`cuMemAlloc`).
/// [`Self::of`] and what follows it take the plain name for both, and for every version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "counts say nothing until they are compared"]
pub struct CallCounts(BTreeMap<String, u64>);

impl CallCounts {
    pub(super) fn add(&mut self, name: &str, calls: u64) {
        *self.0.entry(name.to_owned()).or_default() += calls;
    }

    /// What is counted here and not yet in `earlier`.
    pub(super) fn without(mut self, earlier: &Self) -> Self {
        for (name, calls) in &mut self.0 {
            *calls -= earlier.0.get(name).copied().unwrap_or(0).min(*calls);
        }
        self.0.retain(|_, calls| *calls > 0);
        self
    }

    /// Each name with its calls, as counted, in order.
    pub fn by_name(&self) -> &BTreeMap<String, u64> {
        &self.0
    }

    /// Calls of a function in all its versions.
    #[must_use]
    pub fn of(&self, function: &str) -> u64 {
        let of_function =
            |(name, calls): (&String, &u64)| (plain(name) == function).then_some(*calls);
        self.0.iter().filter_map(of_function).sum()
    }

    /// The calls of all functions but these, in all their versions.
    pub fn outside(&self, functions: &[&str]) -> Self {
        let others = self.0.iter().filter(|(name, _)| !functions.contains(&plain(name)));
        Self(others.map(|(name, calls)| (name.clone(), *calls)).collect())
    }

    /// Fails, saying what was called, unless these functions were called so often, in any version,
    /// and no other was.
    ///
    /// # Panics
    ///
    /// So.
    #[track_caller]
    pub fn assert_exactly(&self, expected: &[(&str, u64)]) {
        let functions: Vec<&str> = expected.iter().map(|(function, _)| *function).collect();
        let as_expected = expected.iter().all(|(function, calls)| self.of(function) == *calls);
        let expected =
            Self(expected.iter().map(|(name, calls)| ((*name).into(), *calls)).collect());
        assert!(
            as_expected && self.outside(&functions).0.is_empty(),
            "calls of the driver\n  expected: {expected}\n  made:     {self}"
        );
    }

    /// Fails, saying what was called, if any function but these was.
    ///
    /// # Panics
    ///
    /// So.
    #[track_caller]
    pub fn assert_only(&self, functions: &[&str]) {
        let outside = self.outside(functions);
        assert!(
            outside.0.is_empty(),
            "calls of the driver outside {functions:?}: {outside}\n  all calls: {self}"
        );
    }
}

impl fmt::Display for CallCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        let calls: Vec<String> =
            self.0.iter().map(|(name, calls)| format!("{name} x {calls}")).collect();
        f.write_str(&calls.join(", "))
    }
}

/// The name of a function without what says its version (`_v2`) and its default stream (`_ptsz`,
/// `_ptds`).
fn plain(name: &str) -> &str {
    let stream = |name: &'_ str| {
        ["_ptsz", "_ptds"].iter().find_map(|end| name.strip_suffix(end).map(str::len))
    };
    let name = stream(name).map_or(name, |len| &name[..len]);
    match name.rsplit_once("_v") {
        Some((plain, version)) if version.parse::<u32>().is_ok() => plain,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(calls: &[(&str, u64)]) -> CallCounts {
        let mut counts = CallCounts::default();
        for (name, calls) in calls {
            counts.add(name, *calls);
        }
        counts
    }

    #[test]
    fn a_function_is_counted_in_all_its_versions() {
        for (name, expected) in [
            ("cuInit", "cuInit"),
            ("cuMemAlloc_v2", "cuMemAlloc"),
            ("cuMemcpyHtoD_v2_ptds", "cuMemcpyHtoD"),
            ("cuLaunchKernel_ptsz", "cuLaunchKernel"),
            ("cuGraphAddNode_v2", "cuGraphAddNode"),
            ("cuMem_view", "cuMem_view"),
        ] {
            assert_eq!(plain(name), expected);
        }
        let counts = counts(&[("cuMemAlloc", 1), ("cuMemAlloc_v2", 2), ("cuMemAllocAsync", 4)]);
        assert_eq!(counts.of("cuMemAlloc"), 3);
        assert_eq!(counts.of("cuMemFree"), 0);
    }

    #[test]
    fn a_difference_leaves_out_what_was_there() {
        let earlier = counts(&[("cuInit", 1), ("cuCtxGetCurrent", 5)]);
        let later = counts(&[("cuInit", 1), ("cuCtxGetCurrent", 7), ("cuLaunchKernelEx", 1)]);
        let expected = counts(&[("cuCtxGetCurrent", 2), ("cuLaunchKernelEx", 1)]);
        assert_eq!(later.without(&earlier), expected);
    }

    fn failure(check: impl FnOnce() + std::panic::UnwindSafe) -> Option<String> {
        let failed = std::panic::catch_unwind(check).err()?;
        failed.downcast_ref::<String>().cloned()
    }

    #[test]
    fn an_unexpected_call_is_named() {
        let made = counts(&[("cuLaunchKernelEx_ptsz", 1), ("cuMemsetD8Async", 2)]);
        made.assert_exactly(&[("cuLaunchKernelEx", 1), ("cuMemsetD8Async", 2)]);
        made.assert_only(&["cuLaunchKernelEx", "cuMemsetD8Async", "cuInit"]);
        for expected in [
            &[("cuLaunchKernelEx", 1)][..],
            &[("cuLaunchKernelEx", 1), ("cuMemsetD8Async", 1)],
            &[("cuLaunchKernelEx", 1), ("cuMemsetD8Async", 2), ("cuInit", 1)],
            &[],
        ] {
            let made = made.clone();
            let failure = failure(move || made.assert_exactly(expected)).unwrap();
            assert!(
                failure.contains("cuLaunchKernelEx_ptsz x 1, cuMemsetD8Async x 2"),
                "{failure}"
            );
        }
        let failure = failure(move || made.assert_only(&["cuLaunchKernelEx"])).unwrap();
        assert!(
            failure.contains("outside [\"cuLaunchKernelEx\"]: cuMemsetD8Async x 2"),
            "{failure}"
        );
    }
}
