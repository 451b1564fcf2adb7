//! From the peer's terms to ours.

use std::collections::BTreeMap;

use frazil_core::{Band, LseForm};

use super::row::{Form, Lengths, Row, Strides};
use crate::case::{
    AlibiCase, BiasCase, BiasValues, Case, PageOrder, Place, Places, PoolOrder, RowLayout,
    SideCase, SinkCase, TableOrder, Values,
};
use crate::rules::Family;

/// The scale of every one of the peer's tests.
const PEER_SCALE: f32 = 0.125;

/// First entry of the running sums in the second prefix form.
const PREFIX_BASE: i32 = 1000;

/// How the rows of packed sides are found.
#[derive(Clone, Copy)]
enum Packing {
    Lengths,
    Prefix { base: i32 },
}

impl Row {
    /// Every way in which the row is run.
    pub(super) fn runs(&self) -> Vec<Case> {
        let lengths = ("", Packing::Lengths);
        let packed = [
            ("_lengths", Packing::Lengths),
            ("_prefix", Packing::Prefix { base: 0 }),
            ("_prefix_1000", Packing::Prefix { base: PREFIX_BASE }),
        ];
        let form = self.form();
        let forms: &[_] = match form {
            Form::Ragged(_) | Form::Paged { ragged_q: true, .. } => &packed,
            _ => &[lengths],
        };
        let mut runs = Vec::new();
        for (suffix, packing) in forms {
            for (what, values) in [("ints", Values::SparseInts), ("normal", Values::Normal)] {
                let name = format!("{}{suffix}_{what}", self.id);
                runs.push(self.case(name, &form, *packing, values));
            }
        }
        runs
    }

    /// The storage that the peer's runner binds, which for 8-bit types is not what the row says.
    fn form(&self) -> Form {
        let full = |extent: u64| vec![i32::try_from(extent).unwrap_or(i32::MAX); self.lanes()];
        match (self.family, &self.form) {
            (Family::Fp16, form) | (Family::Fp8, form @ Form::Ragged(_)) => form.clone(),
            (Family::Fp8, &Form::Paged { page_size, ragged_q, .. }) => {
                let lengths = Lengths { q: full(self.seqlen_q), kv: full(self.seqlen_kv) };
                Form::Paged { lengths, page_size, ragged_q }
            }
            (Family::Fp8 | Family::Mxfp8, _) => Form::Dense,
        }
    }

    fn lanes(&self) -> usize {
        usize::try_from(self.batch).unwrap_or(0)
    }

    fn case(&self, name: String, form: &Form, packing: Packing, values: Values) -> Case {
        let (q, kv) = self.sides(form, packing);
        let bounded = self.left_bound.is_some() || self.right_bound.is_some();
        let band = Band {
            align: self.align,
            // The peer counts the diagonal's key, we do not.
            left: self.left_bound.map(|bound| bound - 1),
            right: self.right_bound,
        };
        Case {
            name,
            note: None,
            dtype: self.dtype,
            o_dtype: (self.o_dtype != self.dtype).then_some(self.o_dtype),
            batch: self.batch,
            num_q_heads: self.num_q_heads,
            num_kv_heads: self.num_k_heads,
            num_v_heads: (self.num_v_heads != self.num_k_heads).then_some(self.num_v_heads),
            head_dim_qk: self.head_dim_qk,
            head_dim_v: Some(self.head_dim_v),
            seqlen_q: self.seqlen_q,
            seqlen_kv: self.seqlen_kv,
            place: self.places(&q, &kv),
            q,
            kv,
            softmax_scale: Some(PEER_SCALE),
            // Without a bound the alignment hides nothing; only ALiBi measures from it.
            band: (bounded || self.alibi).then_some(band),
            soft_cap: None,
            bias: self.bias.then_some(BiasCase {
                dtype: self.dtype,
                per_batch: false,
                per_head: true,
                values: BiasValues::AsInputs,
            }),
            alibi: self.alibi.then_some(AlibiCase::PerHead),
            sink: self.sink.then_some(SinkCase::AsInputs),
            dropout: self.dropout,
            block_mask: self.block_mask,
            lse: self.lse.then_some(LseForm::Natural),
            max: self.max,
            sum_exp: self.sum_exp,
            row_outputs: RowLayout::Natural,
            declared: None,
            values,
            seed: self.seed,
            error_word: Vec::new(),
            answers: BTreeMap::new(),
        }
    }

    fn sides(&self, form: &Form, packing: Packing) -> (SideCase, SideCase) {
        match form {
            Form::Dense => (SideCase::Dense, SideCase::Dense),
            Form::Padded(lengths) => (padded(&lengths.q), padded(&lengths.kv)),
            Form::Ragged(lengths) => (packed(&lengths.q, packing), packed(&lengths.kv, packing)),
            Form::Paged { lengths, page_size, ragged_q } => {
                let q = if *ragged_q { packed(&lengths.q, packing) } else { padded(&lengths.q) };
                let kv = SideCase::Paged {
                    lengths: lengths.kv.clone(),
                    page_size: *page_size,
                    num_pages: None,
                    one_table: false,
                    table: TableOrder::ColumnMajor,
                    pool: PoolOrder::Hnd,
                    pages: PageOrder::Interleaved,
                };
                (q, kv)
            }
        }
    }

    /// Places of the tensors that keep their `[B, H, S, D]` strides. Packed rows are contiguous
    /// `[T, H, D]` and pools contiguous, whatever the row says.
    fn places(&self, q: &SideCase, kv: &SideCase) -> Places {
        let strides = match self.family {
            Family::Fp16 => self.strides.clone(),
            Family::Fp8 => self.strides_by(token_major),
            Family::Mxfp8 => self.strides_by(head_major),
        };
        let at = |role: &str, strides: &[i64]| {
            let place = Place { strides: Some(strides.to_vec()), ..Place::default() };
            (role.to_owned(), place)
        };
        let mut places = Vec::new();
        if !q.is_packed() {
            places.extend([at("q", &strides.q), at("o", &strides.o)]);
            let outputs = [("lse", self.lse), ("max", self.max), ("sum_exp", self.sum_exp)];
            for (role, asked) in outputs {
                if asked {
                    places.push(at(role, &strides.stats[..3]));
                }
            }
        }
        if !kv.is_packed() && !matches!(kv, SideCase::Paged { .. }) {
            places.extend([at("k", &strides.k), at("v", &strides.v)]);
        }
        Places(places.into_iter().collect())
    }

    fn strides_by(&self, order: fn([u64; 4]) -> [i64; 4]) -> Strides {
        let (b, q, kv) = (self.batch, self.seqlen_q, self.seqlen_kv);
        Strides {
            q: order([b, self.num_q_heads, q, self.head_dim_qk]),
            k: order([b, self.num_k_heads, kv, self.head_dim_qk]),
            v: order([b, self.num_v_heads, kv, self.head_dim_v]),
            o: order([b, self.num_q_heads, q, self.head_dim_v]),
            stats: head_major([b, self.num_q_heads, q, 1]),
        }
    }
}

fn padded(lengths: &[i32]) -> SideCase {
    SideCase::Padded { lengths: lengths.to_vec(), min_len: 0 }
}

/// Buffers of the peer hold at least 64 rows and a multiple of 64.
fn packed(lengths: &[i32], packing: Packing) -> SideCase {
    let rows: u64 = lengths.iter().map(|&length| u64::try_from(length).unwrap_or(0)).sum();
    let capacity = Some(rows.next_multiple_of(64).max(64));
    let (lengths, max_total) = (lengths.to_vec(), None);
    match packing {
        Packing::Lengths => SideCase::PackedLengths { lengths, max_total, capacity },
        Packing::Prefix { base } => {
            SideCase::PackedPrefix { lengths, base, prefix: None, max_total, capacity }
        }
    }
}

/// `[B, S, H, D]` contiguous, as strides of `[B, H, S, D]`.
fn token_major(extents: [u64; 4]) -> [i64; 4] {
    let [_, heads, rows, columns] = extents.map(stride);
    [product(&[rows, heads, columns]), columns, product(&[heads, columns]), 1]
}

/// `[B, H, S, D]` contiguous.
fn head_major(extents: [u64; 4]) -> [i64; 4] {
    let [_, heads, rows, columns] = extents.map(stride);
    [product(&[rows, heads, columns]), product(&[rows, columns]), columns, 1]
}

fn stride(extent: u64) -> i64 {
    i64::try_from(extent).unwrap_or(i64::MAX)
}

/// Saturates: extents that no tensor can have are the graph's to refuse.
fn product(factors: &[i64]) -> i64 {
    factors.iter().fold(1, |product: i64, &factor| product.saturating_mul(factor))
}
