//! What the kernel takes: `CombineParams` of `kernels/common/sdpa_combine.cu`, field by field.
//!
//! The kernel compares the size of the whole with [`Params::BYTES`] when it is compiled.

use bytemuck::NoUninit;

use crate::sdpa_fwd::{Schedule, SdpaFwdParams};

/// The one parameter of the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Params {
    /// As the kernel in front took it.
    pub op: SdpaFwdParams,
    /// As the kernel in front took it: with partial results.
    pub schedule: Schedule,
    /// Queries of a band.
    pub band_tokens: i32,
    /// Padding, written out.
    pub unused: u32,
}

impl Params {
    /// Size, in bytes.
    pub const BYTES: usize = size_of::<Self>();
}

// SAFETY: a `repr(C)` struct of plain numbers and of structs without padding, without any itself
// (below).
unsafe impl NoUninit for Params {}

// The sum of the fields: there is no padding, here or in the kernel.
const _: () = assert!(Params::BYTES == SdpaFwdParams::BYTES + Schedule::BYTES + 2 * 4);
