//! What a tensor is for.

/// Place of a tensor in an operation. One tensor may hold several input roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// Queries.
    Q,
    /// Keys.
    K,
    /// Values.
    V,
    /// Output.
    O,
    /// Rows of each sequence of Q.
    QLengths,
    /// Running sums of the rows of Q.
    QPrefix,
    /// First rows of the sequences of Q.
    QStarts,
    /// Rows of each sequence of K and V.
    KvLengths,
    /// Running sums of the rows of K and V.
    KvPrefix,
    /// First rows of the sequences of K and V.
    KvStarts,
    /// Pages of K.
    TableK,
    /// Pages of V.
    TableV,
    /// Added to the scores.
    Bias,
    /// Slope of each head's distance penalty.
    AlibiSlopes,
    /// A logit of the denominator.
    Sink,
    /// Bits of hidden tiles.
    BlockMask,
    /// Seed of the dropout generator.
    DropoutSeed,
    /// Offset of the dropout generator.
    DropoutOffset,
    /// Log-sum-exp of the scores.
    Lse,
    /// Greatest score.
    Max,
    /// Sum of the exponentials of the scores less the greatest.
    SumExp,
}

impl Role {
    /// Number of roles.
    pub(crate) const COUNT: usize = Self::SumExp as usize + 1;

    /// Name used in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Q => "q",
            Self::K => "k",
            Self::V => "v",
            Self::O => "o",
            Self::QLengths => "q_lengths",
            Self::QPrefix => "q_prefix",
            Self::QStarts => "q_starts",
            Self::KvLengths => "kv_lengths",
            Self::KvPrefix => "kv_prefix",
            Self::KvStarts => "kv_starts",
            Self::TableK => "table_k",
            Self::TableV => "table_v",
            Self::Bias => "bias",
            Self::AlibiSlopes => "alibi_slopes",
            Self::Sink => "sink",
            Self::BlockMask => "block_mask",
            Self::DropoutSeed => "dropout_seed",
            Self::DropoutOffset => "dropout_offset",
            Self::Lse => "lse",
            Self::Max => "max",
            Self::SumExp => "sum_exp",
        }
    }

    /// Whether the operation writes the tensor.
    pub const fn is_output(self) -> bool {
        matches!(self, Self::O | Self::Lse | Self::Max | Self::SumExp)
    }
}
