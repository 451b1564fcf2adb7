//! Kernels that several engines launch.

use super::{Arch, Request};
use crate::{ImageKind, combine, seqlens, work_list};

/// Every kernel that the engines for GPUs share, for one architecture: the packed-length setup, the
/// work list and the merge of pieces.
pub fn shared_kernels(arch: Arch, kind: ImageKind) -> Vec<Request> {
    vec![seqlens::request(arch, kind), work_list::request(arch, kind), combine::request(arch, kind)]
}
