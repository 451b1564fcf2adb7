//! The host's half of attention forward, whatever the kernel: what it takes and in which order.
//!
//! `params` and `schedule` mirror the structs of `kernels/common/`; `operands` fills the first from
//! facts and a call; `packing` says which heads are rows of one tile; `small_batch` is work without a
//! list.

mod operands;
mod packing;
mod params;
mod schedule;
mod small_batch;

pub use crate::band::Band;
pub use operands::{Operands, SetupRegions, SideRegions};
pub use packing::Packing;
pub use params::{
    Bias, HeadValues, Heads, OutputType, PageTable, RowOutput, RowTensor, ScoreParams,
    SdpaFwdParams, SideRows,
};
pub use schedule::{Partials, Schedule, Sections};
pub use small_batch::{MAX_SMALL_BATCH, SmallBatch, SmallBatchParams};
