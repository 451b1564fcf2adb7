//! Facts of attention forward.

use super::{Feature, FeatureSet, Ports, Role};
use crate::graph::{Operation, Side, check_sdpa_fwd};
use crate::{
    Align, Band, DType, Graph, InvalidGraph, LengthBounds, LseForm, SdpaFwd, Sequences, Storage,
};

/// Numbers of attention forward, derived from extents and host bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SdpaFwdShape {
    /// Sequences.
    pub batch: u64,
    /// Heads of Q and O.
    pub num_q_heads: u64,
    /// Heads of K and V; divides `num_q_heads`.
    pub num_kv_heads: u64,
    /// Columns of Q and K.
    pub head_dim_qk: u64,
    /// Columns of V and O.
    pub head_dim_v: u64,
    /// Rows of Q and O.
    pub q: SideShape,
    /// Rows of K and V.
    pub kv: SideShape,
}

/// Rows of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SideShape {
    /// Sequences, as this side's tensors count them.
    pub batch: u64,
    /// Rows of the extents: per sequence (dense, padded), in all (packed), or that a table row can
    /// name (paged).
    pub rows: u64,
    /// Rows that one sequence can have at most.
    pub max_len: u64,
    /// Rows that lie together: those of a page, or all of them where there are no pages.
    pub page_size: u64,
}

/// How one side is stored, with host numbers. The tensors are found by [`Role`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SideFacts {
    /// `[B, H, S, D]`, every row live.
    Dense,
    /// `[B, H, S, D]` and lengths.
    Padded {
        /// Limits of a length.
        bounds: LengthBounds,
    },
    /// `[T, H, D]` and lengths.
    PackedLengths {
        /// Limits of a length.
        bounds: LengthBounds,
        /// Limit of the sum of the lengths.
        max_total: u32,
    },
    /// `[T, H, D]` and running sums.
    PackedPrefix {
        /// Limits of a length.
        bounds: LengthBounds,
        /// Limit of the sum of the lengths.
        max_total: u32,
    },
    /// `[T, H, D]`, starts and lengths.
    PackedStarts {
        /// Limits of a length.
        bounds: LengthBounds,
        /// Limit of the rows that sequences reach.
        max_total: u32,
    },
    /// Pools `[N, H, page_size, D]`, tables and lengths.
    Paged {
        /// Limits of a length.
        bounds: LengthBounds,
        /// Rows of a page.
        page_size: u64,
    },
}

impl SideFacts {
    /// Whether rows are `[T, H, D]`.
    pub fn is_packed(&self) -> bool {
        matches!(
            self,
            Self::PackedLengths { .. } | Self::PackedPrefix { .. } | Self::PackedStarts { .. }
        )
    }

    /// Whether a device tensor says which rows are live.
    pub fn has_lengths(&self) -> bool {
        !matches!(self, Self::Dense)
    }

    /// Limits of a length, where lengths come from a tensor.
    pub fn bounds(&self) -> Option<LengthBounds> {
        match *self {
            Self::Dense => None,
            Self::Padded { bounds }
            | Self::PackedLengths { bounds, .. }
            | Self::PackedPrefix { bounds, .. }
            | Self::PackedStarts { bounds, .. }
            | Self::Paged { bounds, .. } => Some(bounds),
        }
    }

    fn feature(&self, side: Side) -> Option<Feature> {
        let (q, kv) = match self {
            Self::Dense => return None,
            Self::Padded { .. } => (Feature::QPadded, Feature::KvPadded),
            Self::PackedLengths { .. } => (Feature::QPackedLengths, Feature::KvPackedLengths),
            Self::PackedPrefix { .. } => (Feature::QPackedPrefix, Feature::KvPackedPrefix),
            Self::PackedStarts { .. } => (Feature::QPackedStarts, Feature::KvPackedStarts),
            Self::Paged { .. } => return Some(Feature::KvPaged),
        };
        Some(if side == Side::Q { q } else { kv })
    }

    fn read(storage: &Storage, shape: &SideShape) -> Self {
        match *storage {
            Storage::Dense => Self::Dense,
            Storage::Padded { bounds, .. } => Self::Padded { bounds },
            Storage::Packed { sequences, bounds, max_total } => match sequences {
                Sequences::Lengths(_) => Self::PackedLengths { bounds, max_total },
                Sequences::Prefix(_) => Self::PackedPrefix { bounds, max_total },
                Sequences::Starts { .. } => Self::PackedStarts { bounds, max_total },
            },
            Storage::Paged { bounds, .. } => Self::Paged { bounds, page_size: shape.page_size },
        }
    }
}

/// Everything an engine may know about an attention forward before it runs. Read from a graph, and
/// nothing can be changed afterwards, so engines need not check any of it again.
#[derive(Clone, Debug, PartialEq)]
pub struct SdpaFwdFacts {
    pub(super) ports: Ports,
    pub(super) shape: SdpaFwdShape,
    pub(super) q_side: SideFacts,
    pub(super) kv_side: SideFacts,
    pub(super) softmax_scale: f32,
    pub(super) band: Option<Band>,
    pub(super) soft_cap: Option<f32>,
    pub(super) alibi: Option<Align>,
    pub(super) lse: Option<LseForm>,
    pub(super) features: FeatureSet,
    pub(super) overridable: bool,
    op: SdpaFwd,
}

impl SdpaFwdFacts {
    pub(super) fn read(op: &SdpaFwd, graph: &Graph) -> Result<Self, InvalidGraph> {
        let shape = check_sdpa_fwd(op, graph)?;
        let mut ports = Ports::empty();
        op.for_each_tensor(&mut |role, id| {
            if let Some(desc) = graph.tensor(id) {
                ports.assign(role, desc);
            }
        });
        #[expect(clippy::cast_possible_truncation, reason = "a scale is an f32")]
        #[expect(clippy::cast_precision_loss, reason = "a head dim is below 2^31")]
        let default_scale = (1.0 / (shape.head_dim_qk as f64).sqrt()) as f32;
        let mut facts = Self {
            shape,
            q_side: SideFacts::read(&op.q_storage, &shape.q),
            kv_side: SideFacts::read(&op.kv_storage, &shape.kv),
            softmax_scale: op.softmax_scale.unwrap_or(default_scale),
            band: op.band.filter(Band::is_bounded),
            soft_cap: op.soft_cap,
            alibi: op.alibi_slopes.map(|_| op.band.map_or(Align::TopLeft, |band| band.align)),
            lse: op.lse.map(|(_, form)| form),
            features: FeatureSet::EMPTY,
            overridable: graph.is_overridable(),
            ports,
            op: op.clone(),
        };
        facts.features = facts.used_features();
        Ok(facts)
    }

    fn used_features(&self) -> FeatureSet {
        let mixed = [Role::K, Role::V].iter().any(|&kv| self.dtype(kv) != self.dtype(Role::Q));
        let holds = |role| self.ports.get(role).is_some();
        let rank = |role| self.ports.get(role).map(|port| port.desc().geometry().rank());
        let padded_rows = |role| self.q_side.is_packed() && rank(role) == Some(3);
        [self.q_side.feature(Side::Q), self.kv_side.feature(Side::Kv)]
            .into_iter()
            .flatten()
            .fold(FeatureSet::EMPTY, FeatureSet::with)
            .with_if(Feature::Dropout, holds(Role::DropoutSeed))
            .with_if(Feature::BlockMask, holds(Role::BlockMask))
            .with_if(Feature::MixedTypes, mixed)
            .with_if(Feature::Band, self.band.is_some())
            .with_if(Feature::SoftCap, self.soft_cap.is_some())
            .with_if(Feature::Bias, holds(Role::Bias))
            .with_if(Feature::Alibi, holds(Role::AlibiSlopes))
            .with_if(Feature::AlibiPerSequence, rank(Role::AlibiSlopes) == Some(2))
            .with_if(Feature::Sink, holds(Role::Sink))
            .with_if(Feature::LseNatural, self.lse == Some(LseForm::Natural))
            .with_if(Feature::LseBase2, self.lse == Some(LseForm::Base2))
            .with_if(Feature::Max, holds(Role::Max))
            .with_if(Feature::SumExp, holds(Role::SumExp))
            .with_if(
                Feature::PaddedRowOutputs,
                [Role::Lse, Role::Max, Role::SumExp].into_iter().any(padded_rows),
            )
    }

    /// The tensors, found by role.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Numbers of the declaration.
    pub fn shape(&self) -> &SdpaFwdShape {
        &self.shape
    }

    /// How Q and O are stored.
    pub fn q_side(&self) -> SideFacts {
        self.q_side
    }

    /// How K and V are stored.
    pub fn kv_side(&self) -> SideFacts {
        self.kv_side
    }

    /// Factor of `q . k`; finite.
    pub fn softmax_scale(&self) -> f32 {
        self.softmax_scale
    }

    /// The band, where it hides anything.
    pub fn band(&self) -> Option<Band> {
        self.band
    }

    /// Positive and finite.
    pub fn soft_cap(&self) -> Option<f32> {
        self.soft_cap
    }

    /// ALiBi, with the corner its distances are measured from.
    pub fn alibi(&self) -> Option<Align> {
        self.alibi
    }

    /// Logarithm of the LSE, where it is asked for.
    pub fn lse(&self) -> Option<LseForm> {
        self.lse
    }

    /// Type of a tensor's elements, where the graph has that tensor.
    pub fn dtype(&self, role: Role) -> Option<DType> {
        self.ports.get(role).map(|port| port.desc().dtype())
    }

    /// Whether a device tensor steers the work, so that a plan has an error word.
    pub fn has_device_lengths(&self) -> bool {
        self.q_side.has_lengths() || self.kv_side.has_lengths()
    }

    pub(crate) fn op(&self) -> &SdpaFwd {
        &self.op
    }
}
