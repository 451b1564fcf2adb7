//! Packed-length setup: the first kernel of every execute that device tensors steer.
//!
//! One block turns what the tensors of both sides say, in whatever form, into bounded lengths and
//! first rows in the workspace, and writes the error word (`kernels/common/sdpa_seqlens.cu`). The
//! form is a value, so one artifact for each target serves every plan.
//!
//! The kernel sees rows and lengths alone. Page tables are read by the kernels that use the pages:
//! they clamp ids, and or [`ErrorWord::PAGE_K`](frazil_core::ErrorWord::PAGE_K) and
//! [`ErrorWord::PAGE_V`](frazil_core::ErrorWord::PAGE_V) into the word that is written here.

mod launch;
mod params;
mod tensors;

use frazil_core::{Call, Config, Layout, Region, Role, SdpaFwdFacts};

pub use launch::{OLDEST_NVRTC, SeqlensKernel, request};
pub use params::{
    ElementOffsets, Form, IntVector, MAX_ELEMENT_OFFSETS, Params, SideLengths, SideParams,
};
pub(crate) use tensors::LengthTensors;
use tensors::ROW_OUTPUTS;

/// Symbol of the kernel, as [`Launches`](frazil_core::Launches) names it.
pub const KERNEL: &str = "frazil_sdpa_seqlens";

/// Threads of the one block; each takes one sequence at a time.
pub const NUM_THREADS: u32 = 256;

/// The integers that are compiled in.
pub fn config() -> Config {
    Config::new([
        ("num_threads", NUM_THREADS.into()),
        ("params_bytes", Params::BYTES as i64),
        ("smem_bytes", smem_bytes().into()),
    ])
}

/// Static shared memory: a 64-bit sum and 32 bits for each warp.
const fn smem_bytes() -> u32 {
    (NUM_THREADS / 32 * (8 + 4)).next_multiple_of(8)
}

/// The setup of one plan: where it writes, and what it is launched with.
#[derive(Clone, Debug)]
pub struct Seqlens {
    error_word: Region,
    q: Option<SeqlensSide>,
    kv: Option<SeqlensSide>,
}

/// What is written of one side with lengths, `B` entries each, whatever the tensors hold.
#[derive(Clone, Debug)]
pub struct SeqlensSide {
    tensors: LengthTensors,
    lengths: Region,
    starts: Option<Region>,
    offsets: Vec<(Role, Region)>,
}

impl Seqlens {
    /// Adds its regions to a plan's workspace; `None` where no side has device lengths, and nothing
    /// is added.
    ///
    /// `element_offsets` are the tensors whose rows are wanted in elements too, as libraries want
    /// them that know no row stride; those that the graph lacks or that are not packed have none.
    pub fn of(facts: &SdpaFwdFacts, element_offsets: &[Role], layout: &mut Layout) -> Option<Self> {
        if !facts.has_device_lengths() {
            return None;
        }
        let error_word = layout.region("error_word", 4);
        let mut side = |tensors| SeqlensSide::of(facts, tensors, element_offsets, layout);
        let q = LengthTensors::q(facts).map(&mut side);
        let kv = LengthTensors::kv(facts).map(side);
        Some(Self { error_word, q, kv })
    }

    /// A `u32` of [`ErrorWord`](frazil_core::ErrorWord) bits; its offset is that of the plan.
    pub fn error_word(&self) -> Region {
        self.error_word
    }

    /// What is written of Q, where it has lengths.
    pub fn q(&self) -> Option<&SeqlensSide> {
        self.q.as_ref()
    }

    /// What is written of K and V, where they have lengths.
    pub fn kv(&self) -> Option<&SeqlensSide> {
        self.kv.as_ref()
    }

    /// The kernel's parameter for one call, overrides of extents and strides included.
    pub fn params(&self, call: &Call<'_>) -> Params {
        let sides = [&self.q, &self.kv].into_iter().flatten();
        let batch = sides.map(|side| side.tensors.batch(call)).next().unwrap_or(0);
        let params = |side: &Option<SeqlensSide>| {
            side.as_ref().map_or_else(SideParams::default, |side| side.params(call))
        };
        Params {
            batch: signed(batch),
            error_word: call.region(self.error_word),
            q: params(&self.q),
            kv: params(&self.kv),
        }
    }
}

impl SeqlensSide {
    fn of(
        facts: &SdpaFwdFacts,
        tensors: LengthTensors,
        element_offsets: &[Role],
        layout: &mut Layout,
    ) -> Self {
        let batch = facts.shape().batch;
        let (lengths, starts) = tensors.region_names();
        let lengths = layout.region(lengths, batch.saturating_mul(4));
        if !tensors.is_packed() {
            return Self { tensors, lengths, starts: None, offsets: Vec::new() };
        }
        let starts = Some(layout.region(starts, batch.saturating_mul(4)));
        let is_packed = |role| {
            let axes = facts.ports().get(role).map(|port| port.desc().geometry().rank());
            axes == Some(if ROW_OUTPUTS.contains(&role) { 2 } else { 3 })
        };
        let wanted = |role: &Role| element_offsets.contains(role) && is_packed(*role);
        let bytes = batch.saturating_add(1).saturating_mul(8);
        let offsets = tensors.with_rows().iter().filter(|(role, _)| wanted(role));
        let offsets = offsets.map(|&(role, name)| (role, layout.region(name, bytes))).collect();
        Self { tensors, lengths, starts, offsets }
    }

    /// int32 `[B]`: live rows of each sequence.
    pub fn lengths(&self) -> Region {
        self.lengths
    }

    /// int32 `[B]`: first row of each sequence, where the side is packed.
    pub fn starts(&self) -> Option<Region> {
        self.starts
    }

    /// int64 `[B + 1]`: where a packed tensor has the first row of each sequence, then the row past
    /// the last sequence, in elements; for the tensors that [`Seqlens::of`] was asked for.
    pub fn element_offsets(&self, role: Role) -> Option<Region> {
        self.offsets.iter().find(|(of, _)| *of == role).map(|&(_, region)| region)
    }

    fn params(&self, call: &Call<'_>) -> SideParams {
        let mut offsets = [ElementOffsets::default(); MAX_ELEMENT_OFFSETS];
        for (to, &(role, region)) in offsets.iter_mut().zip(&self.offsets) {
            let row_stride = call.view(role).map_or(0, |view| view.geometry.stride(0));
            *to = ElementOffsets { out: call.region(region), row_stride: signed(row_stride) };
        }
        SideParams {
            lengths: self.tensors.lengths(call),
            num_offsets: self.offsets.len() as u64,
            out_lengths: call.region(self.lengths),
            out_starts: self.starts.map_or(0, |region| call.region(region)),
            offsets,
        }
    }
}

/// Extents, strides and counts of rows are below 2^63.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
