//! The features a graph can use, as a set.

use std::fmt;

macro_rules! features {
    ($($(#[$doc:meta])* $variant:ident => $name:literal,)*) => {
        /// Something a graph asks for that an engine may lack.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Feature {
            $($(#[$doc])* $variant,)*
        }

        impl Feature {
            /// All features, in the order in which a decline names them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Name used in messages and data.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

features! {
    /// Weights dropped at random.
    Dropout => "dropout",
    /// Whole tiles hidden by bits.
    BlockMask => "block_mask",
    /// Q, K and V not all of one type.
    MixedTypes => "mixed_types",
    /// Keys outside a band hidden.
    Band => "band",
    /// `cap * tanh(s / cap)`.
    SoftCap => "soft_cap",
    /// A tensor added to the scores.
    Bias => "bias",
    /// A penalty linear in the distance.
    Alibi => "alibi",
    /// Slopes of that penalty for each sequence, not only for each head.
    AlibiPerSequence => "alibi_per_sequence",
    /// A logit in the denominator.
    Sink => "sink",
    /// Log-sum-exp, natural logarithm.
    LseNatural => "lse_natural",
    /// Log-sum-exp, base two.
    LseBase2 => "lse_base2",
    /// Greatest score of each row.
    Max => "max",
    /// Sum of exponentials of each row.
    SumExp => "sum_exp",
    /// Q and O `[B, H, S, D]` with lengths.
    QPadded => "q_padded",
    /// Q and O `[T, H, D]` found by lengths.
    QPackedLengths => "q_packed_lengths",
    /// Q and O `[T, H, D]` found by running sums.
    QPackedPrefix => "q_packed_prefix",
    /// Q and O `[T, H, D]` found by starts and lengths.
    QPackedStarts => "q_packed_starts",
    /// K and V `[B, H, S, D]` with lengths.
    KvPadded => "kv_padded",
    /// K and V `[T, H, D]` found by lengths.
    KvPackedLengths => "kv_packed_lengths",
    /// K and V `[T, H, D]` found by running sums.
    KvPackedPrefix => "kv_packed_prefix",
    /// K and V `[T, H, D]` found by starts and lengths.
    KvPackedStarts => "kv_packed_starts",
    /// K and V in pages.
    KvPaged => "kv_paged",
    /// LSE, max or sum-exp `[B, H, S]` for packed Q.
    PaddedRowOutputs => "padded_row_outputs",
    /// No graph uses it and no engine names it: tests demand it to see that an unknown feature is
    /// declined everywhere.
    #[doc(hidden)]
    OnlyInTests => "only_in_tests",
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of features.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct FeatureSet(u64);

impl FeatureSet {
    /// No feature.
    pub const EMPTY: Self = Self(0);

    /// The set of the features listed.
    pub const fn of(features: &[Feature]) -> Self {
        let mut set = Self::EMPTY;
        let mut at = 0;
        while at < features.len() {
            set = set.with(features[at]);
            at += 1;
        }
        set
    }

    /// This set and one more feature.
    #[must_use]
    pub const fn with(self, feature: Feature) -> Self {
        Self(self.0 | 1 << feature as u64)
    }

    /// This set, and the feature where `used`.
    #[must_use]
    pub(crate) const fn with_if(self, feature: Feature, used: bool) -> Self {
        if used { self.with(feature) } else { self }
    }

    /// Whether the set holds the feature.
    pub const fn contains(self, feature: Feature) -> bool {
        self.0 & 1 << feature as u64 != 0
    }

    /// The features of the set, in the order of [`Feature::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Feature> {
        Feature::ALL.iter().copied().filter(move |&feature| self.contains(feature))
    }

    /// The first feature of this set that `served` lacks.
    pub fn first_outside(self, served: Self) -> Option<Feature> {
        self.iter().find(|&feature| !served.contains(feature))
    }
}

impl fmt::Debug for FeatureSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Names separated by spaces; `none` for the empty set.
impl fmt::Display for FeatureSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::EMPTY {
            return f.write_str("none");
        }
        for (at, feature) in self.iter().enumerate() {
            let gap = if at == 0 { "" } else { " " };
            write!(f, "{gap}{feature}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_feature_outside_is_named() {
        let asked = FeatureSet::of(&[Feature::Sink, Feature::Dropout, Feature::Band]);
        assert_eq!(asked.first_outside(FeatureSet::of(&[Feature::Band])), Some(Feature::Dropout));
        assert_eq!(asked.first_outside(FeatureSet::of(Feature::ALL)), None);
        assert_eq!(asked.to_string(), "dropout band sink");
        assert_eq!(FeatureSet::EMPTY.to_string(), "none");
    }
}
