//! Modifiers, outputs and values.

use frazil_core::{Align, Band, DType, LseForm};
use proptest::prelude::*;

use super::capacity;
use crate::case::{AlibiCase, BiasCase, BiasValues, RowLayout, SideCase, SinkCase, Values};

/// The choices beside shape and storage.
#[derive(Clone, Debug)]
pub(super) struct Extras {
    pub(super) softmax_scale: Option<f32>,
    pub(super) band: Option<Band>,
    pub(super) soft_cap: Option<f32>,
    /// Whether it is of the io type; broadcasts; values.
    bias: Option<(bool, bool, bool, BiasValues)>,
    pub(super) alibi: Option<AlibiCase>,
    pub(super) sink: Option<SinkCase>,
    pub(super) dropout: Option<f32>,
    pub(super) block_mask: bool,
    pub(super) lse: Option<LseForm>,
    pub(super) max: bool,
    pub(super) sum_exp: bool,
    layout: Layout,
    pub(super) values: Values,
}

/// Layout of row outputs of packed queries.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Natural,
    /// With that many rows of the pitch unused.
    HeadMajor(u64),
    Padded,
}

pub(super) fn extras() -> impl Strategy<Value = Extras> {
    (scores(), declared_only(), outputs(), values()).prop_map(
        |(
            (softmax_scale, band, soft_cap, bias, alibi, sink),
            (dropout, block_mask),
            outputs,
            values,
        )| {
            let (lse, max, sum_exp, layout) = outputs;
            Extras {
                softmax_scale,
                band,
                soft_cap,
                bias,
                alibi,
                sink,
                dropout,
                block_mask,
                lse,
                max,
                sum_exp,
                layout,
                values,
            }
        },
    )
}

type Bias = (bool, bool, bool, BiasValues);
type Scores =
    (Option<f32>, Option<Band>, Option<f32>, Option<Bias>, Option<AlibiCase>, Option<SinkCase>);

fn scores() -> impl Strategy<Value = Scores> {
    let scale = prop_oneof![
        4 => Just(None), 2 => Just(Some(0.125)), 1 => Just(Some(0.0)), 1 => Just(Some(-0.25)),
        1 => (-1.0..1.0_f32).prop_map(Some)
    ];
    let soft_cap = prop_oneof![5 => Just(None), 1 => (0.5..40.0_f32).prop_map(Some)];
    let bias_values = prop_oneof![
        3 => Just(BiasValues::AsInputs), 1 => Just(BiasValues::FirstRowMinusInf),
        1 => Just(BiasValues::HalfMinusInf)
    ];
    let bias = (any::<bool>(), any::<bool>(), any::<bool>(), bias_values);
    let bias = prop_oneof![4 => Just(None), 1 => bias.prop_map(Some)];
    let alibi = prop_oneof![
        8 => Just(None), 1 => Just(Some(AlibiCase::PerHead)),
        1 => Just(Some(AlibiCase::PerBatchAndHead))
    ];
    let constant = prop_oneof![Just(0.5_f32), Just(100.0), Just(-100.0), -3.0..3.0_f32];
    let sink = prop_oneof![
        5 => Just(None), 1 => Just(Some(SinkCase::AsInputs)),
        1 => constant.prop_map(|logit| Some(SinkCase::Constant(logit)))
    ];
    (scale, band(), soft_cap, bias, alibi, sink)
}

fn band() -> impl Strategy<Value = Option<Band>> {
    let align = prop_oneof![Just(Align::TopLeft), Just(Align::BottomRight)];
    let bound = || {
        prop_oneof![
            3 => Just(None), 3 => Just(Some(0)), 3 => (1..40_u32).prop_map(Some),
            1 => Just(Some(4096)), 1 => Just(Some(u32::MAX))
        ]
    };
    let band = (align, bound(), bound());
    let band = band.prop_map(|(align, left, right)| Some(Band { align, left, right }));
    prop_oneof![1 => Just(None), 2 => band]
}

/// Modifiers that no engine serves yet.
fn declared_only() -> impl Strategy<Value = (Option<f32>, bool)> {
    let dropout = prop_oneof![40 => Just(None), 1 => (0.0..0.9_f32).prop_map(Some)];
    (dropout, prop::bool::weighted(0.02))
}

fn outputs() -> impl Strategy<Value = (Option<LseForm>, bool, bool, Layout)> {
    let lse = prop_oneof![
        1 => Just(None), 2 => Just(Some(LseForm::Natural)), 1 => Just(Some(LseForm::Base2))
    ];
    let layout = prop_oneof![
        2 => Just(Layout::Natural), 1 => (0..9_u64).prop_map(Layout::HeadMajor),
        1 => Just(Layout::Padded)
    ];
    (lse, prop::bool::weighted(0.3), prop::bool::weighted(0.3), layout)
}

fn values() -> impl Strategy<Value = Values> {
    prop_oneof![
        6 => Just(Values::Normal), 2 => Just(Values::SparseInts), 1 => Just(Values::OneHotV),
        1 => Just(Values::Large), 1 => Just(Values::ConstantV), 1 => Just(Values::NegativeScores)
    ]
}

impl Extras {
    /// Without the modifiers that no engine serves yet.
    pub(super) fn keep_to_what_is_served(&mut self) {
        (self.dropout, self.block_mask) = (None, false);
    }

    /// The bias, for Q of that type; an 8-bit one takes an f32 bias.
    pub(super) fn bias(&self, dtype: DType) -> Option<BiasCase> {
        let (of_io_type, per_batch, per_head, values) = self.bias?;
        let of_io_type = of_io_type && dtype.bytes() > 1;
        let dtype = if of_io_type { dtype } else { DType::F32 };
        Some(BiasCase { dtype, per_batch, per_head, values })
    }

    /// The layout for packed queries.
    pub(super) fn row_layout(&self, q: &SideCase) -> RowLayout {
        match self.layout {
            Layout::Natural => RowLayout::Natural,
            Layout::HeadMajor(unused) => {
                RowLayout::HeadMajor { pitch: capacity(q).max(1) + unused }
            }
            Layout::Padded => RowLayout::Padded,
        }
    }
}
