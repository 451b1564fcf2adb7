//! From facts and a call to what attention forward takes.

use frazil_core::{
    Align, Call, DType, ErrorWord, LseForm, Region, Role, SdpaFwdFacts, SideFacts, View,
};

use super::Packing;
use super::params::{
    Bias, HeadValues, Heads, OutputType, PageTable, RowOutput, RowTensor, ScoreParams,
    SdpaFwdParams, SideRows,
};
use crate::Divisor;
use crate::band::Band;

/// The parameters of one plan: all but what each call gives anew.
#[derive(Clone, Debug)]
pub struct Operands {
    /// What is the same for all calls; the rest is 0.
    fixed: SdpaFwdParams,
    q_side: SideFacts,
    kv_side: SideFacts,
    setup: Option<SetupRegions>,
}

/// Where a kernel before has left the bounded lengths of a call.
#[derive(Clone, Copy, Debug)]
pub struct SetupRegions {
    /// The error word, which that kernel has written.
    pub error_word: Region,
    /// Of Q and O; `None` where dense.
    pub q: Option<SideRegions>,
    /// Of K and V; `None` where dense.
    pub kv: Option<SideRegions>,
}

/// Where the bounded lengths of one side lie.
#[derive(Clone, Copy, Debug)]
pub struct SideRegions {
    /// int32 `[B]`.
    pub lengths: Region,
    /// int32 `[B]`, where packed.
    pub starts: Option<Region>,
}

/// Axes of a tensor with rows, by how it is stored.
struct Axes {
    batch: Option<usize>,
    head: usize,
    row: usize,
}

impl Axes {
    fn of(side: SideFacts) -> Self {
        match side.is_packed() {
            // `[T, H, D]`.
            true => Self { batch: None, head: 1, row: 0 },
            // `[B, H, S, D]`, or `[N, H, page_size, D]`.
            false => Self { batch: Some(0), head: 1, row: 2 },
        }
    }
}

impl Operands {
    /// Of a plan whose tiles are packed so. `setup` is there exactly where a side has lengths on the
    /// device.
    ///
    /// # Panics
    ///
    /// If a type of O is none of f16, bf16 and f32, which no engine of ours offers.
    pub fn of(facts: &SdpaFwdFacts, packing: Packing, setup: Option<SetupRegions>) -> Self {
        let shape = facts.shape();
        let page_size = match facts.kv_side() {
            SideFacts::Paged { page_size, .. } => Divisor::new(int32(page_size).unsigned_abs()),
            _ => Divisor::default(),
        };
        let table = |bit: ErrorWord| PageTable { error_bit: bit.0, ..PageTable::default() };
        let is_paged = matches!(facts.kv_side(), SideFacts::Paged { .. });
        let tables = [ErrorWord::PAGE_K, ErrorWord::PAGE_V]
            .map(|bit| if is_paged { table(bit) } else { PageTable::default() });
        let fixed = SdpaFwdParams {
            q: RowTensor::default(),
            k: RowTensor::default(),
            v: RowTensor::default(),
            o: RowTensor::default(),
            lse: RowOutput::default(),
            max: RowOutput::default(),
            sum_exp: RowOutput::default(),
            sink: HeadValues::default(),
            table_k: tables[0],
            table_v: tables[1],
            q_rows: SideRows::default(),
            kv_rows: SideRows::default(),
            score: score(facts),
            heads: Heads {
                num_q_heads: int32(shape.num_q_heads),
                num_kv_heads: int32(shape.num_kv_heads),
                group: int32(packing.group.into()),
                num_runs: int32(packing.num_runs.into()),
                pack: Divisor::new(packing.pack),
                runs: Divisor::new(packing.num_runs),
            },
            page_size,
            error_word: 0,
            fills_o: matches!(facts.q_side(), SideFacts::Padded { .. }).into(),
            batch: 0,
            head_dim_qk: int32(shape.head_dim_qk),
            head_dim_v: int32(shape.head_dim_v),
            o_type: match facts.dtype(Role::O) {
                Some(DType::F16) => OutputType::F16,
                Some(DType::Bf16) => OutputType::Bf16,
                Some(DType::F32) => OutputType::F32,
                found => unreachable!("O is {found:?}"),
            },
            lse_is_base2: (facts.lse() == Some(LseForm::Base2)).into(),
        };
        Self { fixed, q_side: facts.q_side(), kv_side: facts.kv_side(), setup }
    }

    /// The parameters of one call, overrides of extents and strides included.
    pub fn params(&self, call: &Call<'_>) -> SdpaFwdParams {
        let mut params = self.fixed;
        let (on_q, on_kv) = (Axes::of(self.q_side), Axes::of(self.kv_side));
        let rows = |role, axes| call.view(role).map_or_else(RowTensor::default, |v| rows(v, axes));
        (params.q, params.o) = (rows(Role::Q, &on_q), rows(Role::O, &on_q));
        (params.k, params.v) = (rows(Role::K, &on_kv), rows(Role::V, &on_kv));
        let row_output = |role| call.view(role).map_or_else(RowOutput::default, row_output);
        (params.lse, params.max) = (row_output(Role::Lse), row_output(Role::Max));
        params.sum_exp = row_output(Role::SumExp);
        let values = |role| call.view(role).map_or_else(HeadValues::default, head_values);
        (params.sink, params.score.alibi) = (values(Role::Sink), values(Role::AlibiSlopes));
        if let Some(view) = call.view(Role::Bias) {
            params.score.bias = bias(view, params.score.bias.is_f32);
        }
        for (table, role, pool) in [
            (&mut params.table_k, Role::TableK, Role::K),
            (&mut params.table_v, Role::TableV, Role::V),
        ] {
            if let (Some(view), Some(pool)) = (call.view(role), call.view(pool)) {
                table.pages = view.addr;
                (table.batch_stride, table.column_stride) = (stride(view, 0), stride(view, 1));
                table.num_pages = signed(pool.geometry.extent(0));
            }
        }
        let regions = |side: fn(&SetupRegions) -> Option<SideRegions>| {
            let regions = self.setup.as_ref().and_then(side);
            regions.map_or((0, 0), |SideRegions { lengths, starts }| {
                (call.region(lengths), starts.map_or(0, |starts| call.region(starts)))
            })
        };
        let (lengths, starts) = regions(|setup| setup.q);
        params.q_rows =
            SideRows { lengths, starts, num_rows: num_rows(call, Role::Q, self.q_side) };
        let (lengths, starts) = regions(|setup| setup.kv);
        params.kv_rows =
            SideRows { lengths, starts, num_rows: num_rows(call, Role::K, self.kv_side) };
        params.error_word = self.setup.map_or(0, |setup| call.region(setup.error_word));
        params.batch = signed(batch(call, self.q_side));
        params
    }
}

/// Sequences of a call.
pub(super) fn batch(call: &Call<'_>, q_side: SideFacts) -> u64 {
    let extent = |role| call.view(role).map(|view| view.geometry.extent(0));
    match q_side {
        SideFacts::PackedPrefix { .. } => extent(Role::QPrefix).map(|n| n.saturating_sub(1)),
        side if side.is_packed() => extent(Role::QLengths),
        _ => extent(Role::Q),
    }
    .unwrap_or(0)
}

/// Rows of every sequence of a side that has as many for each.
fn num_rows(call: &Call<'_>, role: Role, side: SideFacts) -> i64 {
    match side {
        SideFacts::Dense | SideFacts::Padded { .. } => {
            call.view(role).map_or(0, |view| signed(view.geometry.extent(2)))
        }
        _ => 0,
    }
}

/// Weights are at most 2^8 then, which f16 holds as well as 1. What is asked for the maximum itself,
/// or for sums relative to it, gets that of all scores. So does what has a sink: where that is far above
/// all scores, rows are multiplied by what they weigh beside it, which would be flushed to 0 by so much
/// earlier.
fn lag_log2(facts: &SdpaFwdFacts) -> f32 {
    let is_asked = |role| facts.ports().get(role).is_some();
    let is_exact = [Role::Max, Role::SumExp, Role::Sink].into_iter().any(is_asked);
    if is_exact { 0.0 } else { 8.0 }
}

fn score(facts: &SdpaFwdFacts) -> ScoreParams {
    let scale = facts.softmax_scale();
    let soft_cap = facts.soft_cap().unwrap_or(0.0);
    ScoreParams {
        scale,
        scale_log2: scale * std::f32::consts::LOG2_E,
        soft_cap,
        // The least caps have no finite inverse; with the greatest one a score of 0 stays 0.
        inv_soft_cap: if soft_cap > 0.0 { soft_cap.recip().min(f32::MAX) } else { 0.0 },
        band: Band::of(facts),
        lag_log2: lag_log2(facts),
        alibi_is_bottom_right: (facts.alibi() == Some(Align::BottomRight)).into(),
        alibi: HeadValues::default(),
        bias: Bias {
            is_f32: (facts.dtype(Role::Bias) == Some(DType::F32)).into(),
            ..Bias::default()
        },
    }
}

fn rows(view: View, axes: &Axes) -> RowTensor {
    RowTensor {
        data: view.addr,
        batch_stride: axes.batch.map_or(0, |axis| stride(view, axis)),
        row_stride: stride(view, axes.row),
        head_stride: stride(view, axes.head),
    }
}

/// `[B, H, S]`, or `[T, H]`, which only packed queries have.
fn row_output(view: View) -> RowOutput {
    let data = view.addr;
    if view.geometry.rank() == 2 {
        let (row_stride, head_stride) = (stride(view, 0), stride(view, 1));
        let start_stride = row_stride;
        return RowOutput {
            data,
            batch_stride: 0,
            start_stride,
            row_stride,
            head_stride,
            num_rows: 0,
        };
    }
    RowOutput {
        data,
        batch_stride: stride(view, 0),
        start_stride: 0,
        row_stride: stride(view, 2),
        head_stride: stride(view, 1),
        num_rows: signed(view.geometry.extent(2)),
    }
}

/// `[H]`, or `[B, H]`.
fn head_values(view: View) -> HeadValues {
    let by_sequence = view.geometry.rank() == 2;
    HeadValues {
        data: view.addr,
        batch_stride: if by_sequence { stride(view, 0) } else { 0 },
        head_stride: stride(view, usize::from(by_sequence)),
    }
}

fn bias(view: View, is_f32: u64) -> Bias {
    Bias {
        data: view.addr,
        batch_stride: stride(view, 0),
        head_stride: stride(view, 1),
        row_stride: stride(view, 2),
        column_stride: stride(view, 3),
        is_f32,
    }
}

/// 0 where the extent is at most 1, since it then multiplies nothing but 0.
fn stride(view: View, axis: usize) -> i64 {
    signed(view.geometry.stride(axis))
}

/// Extents and strides are below 2^63.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Extents are below 2^31.
fn int32(value: u64) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
