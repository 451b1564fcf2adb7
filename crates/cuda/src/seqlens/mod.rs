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

use frazil_core::{Call, Config, Layout, Region, Role, SdpaFwdFacts, SideFacts};

pub use launch::{OLDEST_NVRTC, SeqlensKernel, request};
pub use params::{ElementOffsets, Form, IntVector, MAX_ELEMENT_OFFSETS, Params, SideParams};

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
    facts: SideFacts,
    roles: &'static Roles,
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
        let mut side = |side, roles| SeqlensSide::of(facts, side, roles, element_offsets, layout);
        let q = side(facts.q_side(), &Q_ROLES);
        let kv = side(facts.kv_side(), &KV_ROLES);
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
        let batch = sides.map(|side| side.batch(call)).next().unwrap_or(0);
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
        side: SideFacts,
        roles: &'static Roles,
        element_offsets: &[Role],
        layout: &mut Layout,
    ) -> Option<Self> {
        if !side.has_lengths() {
            return None;
        }
        let batch = facts.shape().batch;
        let lengths = layout.region(roles.lengths_region, batch.saturating_mul(4));
        if !side.is_packed() {
            return Some(Self { facts: side, roles, lengths, starts: None, offsets: Vec::new() });
        }
        let starts = Some(layout.region(roles.starts_region, batch.saturating_mul(4)));
        let is_packed = |role| {
            let axes = facts.ports().get(role).map(|port| port.desc().geometry().rank());
            axes == Some(if ROW_OUTPUTS.contains(&role) { 2 } else { 3 })
        };
        let wanted = |role: &Role| element_offsets.contains(role) && is_packed(*role);
        let bytes = batch.saturating_add(1).saturating_mul(8);
        let offsets = roles.tensors.iter().filter(|(role, _)| wanted(role));
        let offsets = offsets.map(|&(role, name)| (role, layout.region(name, bytes))).collect();
        Some(Self { facts: side, roles, lengths, starts, offsets })
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

    fn batch(&self, call: &Call<'_>) -> u64 {
        let entries = |role| call.view(role).map(|view| view.geometry.extent(0));
        let from_prefix = || entries(self.roles.prefix).map_or(0, |count| count.saturating_sub(1));
        entries(self.roles.lengths).unwrap_or_else(from_prefix)
    }

    fn params(&self, call: &Call<'_>) -> SideParams {
        let (form, min, max, limit) = match self.facts {
            SideFacts::Padded { bounds } | SideFacts::Paged { bounds, .. } => {
                (Form::Lengths, bounds.min, bounds.max, u64::MAX)
            }
            SideFacts::PackedLengths { bounds, max_total } => {
                (Form::PackedLengths, bounds.min, bounds.max, max_total.into())
            }
            SideFacts::PackedPrefix { bounds, max_total } => {
                (Form::PackedPrefix, bounds.min, bounds.max, max_total.into())
            }
            SideFacts::PackedStarts { bounds, max_total } => {
                (Form::PackedStarts, bounds.min, bounds.max, max_total.into())
            }
            _ => unreachable!("`of` takes sides with lengths alone"),
        };
        let capacity = self.rows(call).min(limit);
        // A padded or paged length is held to the rows that there are; a packed one that reaches
        // past them is another error than one above its bound.
        let max_len = match form {
            Form::Lengths => capacity.min(max.into()),
            _ => max.into(),
        };
        let entries =
            if form == Form::PackedPrefix { self.roles.prefix } else { self.roles.lengths };
        let mut offsets = [ElementOffsets::default(); MAX_ELEMENT_OFFSETS];
        for (to, &(role, region)) in offsets.iter_mut().zip(&self.offsets) {
            let row_stride = call.view(role).map_or(0, |view| view.geometry.stride(0));
            *to = ElementOffsets { out: call.region(region), row_stride: signed(row_stride) };
        }
        SideParams {
            form,
            num_offsets: u32::try_from(self.offsets.len()).unwrap_or(u32::MAX),
            entries: int_vector(call, entries),
            starts: int_vector(call, self.roles.starts),
            min_len: min.into(),
            max_len: signed(max_len),
            capacity: signed(capacity),
            out_lengths: call.region(self.lengths),
            out_starts: self.starts.map_or(0, |region| call.region(region)),
            offsets,
        }
    }

    /// Rows that every tensor of the side has: for each sequence or, packed, in all.
    fn rows(&self, call: &Call<'_>) -> u64 {
        let extent = |role, axis| call.view(role).map(|view| view.geometry.extent(axis));
        if let SideFacts::Paged { page_size, .. } = self.facts {
            let columns =
                [Role::TableK, Role::TableV].into_iter().filter_map(|role| extent(role, 1));
            return columns.min().unwrap_or(0).saturating_mul(page_size);
        }
        let is_packed = self.facts.is_packed();
        let rows = self.roles.tensors.iter().filter_map(|&(role, _)| {
            let rank = call.view(role)?.geometry.rank();
            match (ROW_OUTPUTS.contains(&role), is_packed) {
                (false, true) => extent(role, 0),
                (false, false) => extent(role, 2),
                // `[B, H, S]` has rows of its own.
                (true, _) => extent(role, 0).filter(|_| rank == 2),
            }
        });
        rows.min().unwrap_or(0)
    }
}

/// Outputs with one value for each row and head: `[T, H]`, or `[B, H, S]`, which is not packed.
const ROW_OUTPUTS: [Role; 3] = [Role::Lse, Role::Max, Role::SumExp];

/// The tensors of one side, and the names of their regions.
#[derive(Debug)]
struct Roles {
    lengths: Role,
    prefix: Role,
    starts: Role,
    lengths_region: &'static str,
    starts_region: &'static str,
    /// Those with rows, with the region of their element offsets.
    tensors: &'static [(Role, &'static str)],
}

const Q_ROLES: Roles = Roles {
    lengths: Role::QLengths,
    prefix: Role::QPrefix,
    starts: Role::QStarts,
    lengths_region: "q_lengths",
    starts_region: "q_starts",
    tensors: &[
        (Role::Q, "q_element_offsets"),
        (Role::O, "o_element_offsets"),
        (Role::Lse, "lse_element_offsets"),
        (Role::Max, "max_element_offsets"),
        (Role::SumExp, "sum_exp_element_offsets"),
    ],
};

const KV_ROLES: Roles = Roles {
    lengths: Role::KvLengths,
    prefix: Role::KvPrefix,
    starts: Role::KvStarts,
    lengths_region: "kv_lengths",
    starts_region: "kv_starts",
    tensors: &[(Role::K, "k_element_offsets"), (Role::V, "v_element_offsets")],
};

const _: () = assert!(Q_ROLES.tensors.len() <= MAX_ELEMENT_OFFSETS);
const _: () = assert!(KV_ROLES.tensors.len() <= MAX_ELEMENT_OFFSETS);

fn int_vector(call: &Call<'_>, role: Role) -> IntVector {
    call.view(role).map_or_else(IntVector::default, |view| IntVector {
        address: view.addr,
        stride: signed(view.geometry.stride(0)),
    })
}

/// Extents, strides and counts of rows are below 2^63.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
