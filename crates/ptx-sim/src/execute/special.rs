//! Values of special registers (PTX ISA 10).

use crate::alu::{LANES, Lanes};
use crate::launch::Launch;
use crate::module::SharedLayout;
use crate::program::Special as S;

/// Special registers of one warp of a block.
pub(super) fn special(
    launch: &Launch<'_>,
    block: [u32; 3],
    warp: usize,
    shared_end: usize,
) -> Box<[Lanes; S::COUNT]> {
    let mut values = Box::new([[0; LANES]; S::COUNT]);
    let Launch { grid, block: threads, cluster, .. } = *launch;
    let mut each = |special: S, value: &dyn Fn(usize) -> u32| {
        for lane in 0..LANES {
            values[special as usize][lane] = u64::from(value(lane));
        }
    };
    #[expect(clippy::cast_possible_truncation, reason = "a block has at most 1024 threads")]
    let linear = |lane: usize| (warp * LANES + lane) as u32;
    each(S::TidX, &|lane| linear(lane) % threads[0]);
    each(S::TidY, &|lane| linear(lane) / threads[0] % threads[1]);
    each(S::TidZ, &|lane| linear(lane) / threads[0] / threads[1]);
    each(S::LaneId, &|lane| linear(lane) % 32);
    each(S::WarpId, &|lane| linear(lane) / 32);
    each(S::LanemaskEq, &|lane| 1 << lane);
    each(S::LanemaskLt, &|lane| (1 << lane) - 1);
    each(S::LanemaskLe, &|lane| (1 << lane) | ((1 << lane) - 1));
    each(S::LanemaskGe, &|lane| !((1 << lane) - 1));
    each(S::LanemaskGt, &|lane| !((1 << lane) | ((1 << lane) - 1)));
    let mut three = |specials: [S; 3], extents: [u32; 3]| {
        for (special, extent) in specials.into_iter().zip(extents) {
            each(special, &|_| extent);
        }
    };
    let per = |a: [u32; 3], b: [u32; 3], f: fn(u32, u32) -> u32| {
        [f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2])]
    };
    let in_cluster = per(block, cluster, |block, cluster| block % cluster);
    three([S::NtidX, S::NtidY, S::NtidZ], threads);
    three([S::CtaidX, S::CtaidY, S::CtaidZ], block);
    three([S::NctaidX, S::NctaidY, S::NctaidZ], grid);
    let clusterid = per(block, cluster, |block, cluster| block / cluster);
    three([S::ClusteridX, S::ClusteridY, S::ClusteridZ], clusterid);
    let nclusterid = per(grid, cluster, |grid, cluster| grid / cluster);
    three([S::NclusteridX, S::NclusteridY, S::NclusteridZ], nclusterid);
    three([S::ClusterCtaidX, S::ClusterCtaidY, S::ClusterCtaidZ], in_cluster);
    three([S::ClusterNctaidX, S::ClusterNctaidY, S::ClusterNctaidZ], cluster);
    let rank = in_cluster[0] + cluster[0] * (in_cluster[1] + cluster[1] * in_cluster[2]);
    each(S::ClusterCtarank, &|_| rank);
    each(S::ClusterNctarank, &|_| cluster.iter().product());
    each(S::NwarpId, &|_| threads.iter().product::<u32>().div_ceil(32));
    each(S::DynamicSmemSize, &|_| launch.dynamic_shared_bytes);
    let total = u32::try_from(shared_end).unwrap_or(u32::MAX) - SharedLayout::BEGIN;
    each(S::TotalSmemSize, &|_| total);
    values
}
