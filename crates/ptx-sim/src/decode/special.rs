//! Names of special registers (PTX ISA 10).

use super::constants::Constants;
use crate::program::{Clock, Source, Special as S};

pub(super) fn special(name: &str, constants: &mut Constants) -> Option<Source> {
    Some(Source::Special(match name {
        "%tid.x" => S::TidX,
        "%tid.y" => S::TidY,
        "%tid.z" => S::TidZ,
        "%ntid.x" => S::NtidX,
        "%ntid.y" => S::NtidY,
        "%ntid.z" => S::NtidZ,
        "%ctaid.x" => S::CtaidX,
        "%ctaid.y" => S::CtaidY,
        "%ctaid.z" => S::CtaidZ,
        "%nctaid.x" => S::NctaidX,
        "%nctaid.y" => S::NctaidY,
        "%nctaid.z" => S::NctaidZ,
        "%laneid" => S::LaneId,
        "%warpid" => S::WarpId,
        "%nwarpid" => S::NwarpId,
        "%lanemask_eq" => S::LanemaskEq,
        "%lanemask_le" => S::LanemaskLe,
        "%lanemask_lt" => S::LanemaskLt,
        "%lanemask_ge" => S::LanemaskGe,
        "%lanemask_gt" => S::LanemaskGt,
        "%clusterid.x" => S::ClusteridX,
        "%clusterid.y" => S::ClusteridY,
        "%clusterid.z" => S::ClusteridZ,
        "%nclusterid.x" => S::NclusteridX,
        "%nclusterid.y" => S::NclusteridY,
        "%nclusterid.z" => S::NclusteridZ,
        "%cluster_ctaid.x" => S::ClusterCtaidX,
        "%cluster_ctaid.y" => S::ClusterCtaidY,
        "%cluster_ctaid.z" => S::ClusterCtaidZ,
        "%cluster_nctaid.x" => S::ClusterNctaidX,
        "%cluster_nctaid.y" => S::ClusterNctaidY,
        "%cluster_nctaid.z" => S::ClusterNctaidZ,
        "%cluster_ctarank" => S::ClusterCtarank,
        "%cluster_nctarank" => S::ClusterNctarank,
        "%dynamic_smem_size" => S::DynamicSmemSize,
        "%total_smem_size" => S::TotalSmemSize,
        // One multiprocessor, one grid: both are what a device with one of each would say.
        "%smid" | "%gridid" => S::Zero,
        "%nsmid" => return Some(constants.value(1)),
        "WARP_SZ" => return Some(constants.value(32)),
        _ => return None,
    }))
}

pub(super) fn is_explicit_cluster(name: &str) -> bool {
    name == "%is_explicit_cluster"
}

pub(super) fn clock(name: &str) -> Option<Clock> {
    Some(match name {
        "%clock" | "%globaltimer_lo" => Clock::Low,
        "%clock_hi" | "%globaltimer_hi" => Clock::High,
        "%clock64" | "%globaltimer" => Clock::Full,
        _ => return None,
    })
}
