//! The tensors of one side that say how many rows its sequences have.

use frazil_core::{Call, Role, SdpaFwdFacts, SideFacts};

use super::{Form, IntVector, MAX_ELEMENT_OFFSETS, SideLengths, signed};

/// A side with lengths on the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LengthTensors {
    facts: SideFacts,
    roles: &'static Roles,
}

impl LengthTensors {
    /// Of Q and O; `None` where dense.
    pub(crate) fn q(facts: &SdpaFwdFacts) -> Option<Self> {
        Self::of(facts.q_side(), &Q_ROLES)
    }

    /// Of K and V; `None` where dense.
    pub(crate) fn kv(facts: &SdpaFwdFacts) -> Option<Self> {
        Self::of(facts.kv_side(), &KV_ROLES)
    }

    fn of(facts: SideFacts, roles: &'static Roles) -> Option<Self> {
        facts.has_lengths().then_some(Self { facts, roles })
    }

    pub(super) fn is_packed(self) -> bool {
        self.facts.is_packed()
    }

    /// Names of the regions of bounded lengths and first rows.
    pub(super) fn region_names(self) -> (&'static str, &'static str) {
        (self.roles.lengths_region, self.roles.starts_region)
    }

    /// Tensors with rows, and the names of the regions of their element offsets.
    pub(super) fn with_rows(self) -> &'static [(Role, &'static str)] {
        self.roles.tensors
    }

    /// Sequences of a call.
    pub(crate) fn batch(self, call: &Call<'_>) -> u64 {
        let entries = |role| call.view(role).map(|view| view.geometry.extent(0));
        let from_prefix = || entries(self.roles.prefix).map_or(0, |count| count.saturating_sub(1));
        entries(self.roles.lengths).unwrap_or_else(from_prefix)
    }

    /// What kernels take of one call, overrides of extents and strides included.
    pub(crate) fn lengths(self, call: &Call<'_>) -> SideLengths {
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
        SideLengths {
            form,
            unused: 0,
            entries: int_vector(call, entries),
            starts: int_vector(call, self.roles.starts),
            min_len: min.into(),
            max_len: signed(max_len),
            capacity: signed(capacity),
        }
    }

    /// Rows that every tensor of the side has: for each sequence or, packed, in all.
    fn rows(self, call: &Call<'_>) -> u64 {
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
pub(super) const ROW_OUTPUTS: [Role; 3] = [Role::Lse, Role::Max, Role::SumExp];

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
