//! Kernels that several engines launch.

use super::{Arch, Request};
use crate::{ImageKind, seqlens, work_list};

/// Every kernel that the engines for GPUs share, for one architecture: the packed-length setup and the
/// work list.
pub fn shared_kernels(arch: Arch, kind: ImageKind) -> Vec<Request> {
    vec![seqlens::request(arch, kind), work_list::request(arch, kind)]
}
