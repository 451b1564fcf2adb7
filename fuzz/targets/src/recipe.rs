//! Graphs that mean something, put together from choices.
//!
//! A [`Recipe`] holds what stays the same when extents are given anew at execute; [`Rows`] holds the
//! extents. Whatever is drawn here must be accepted when declared.

use frazil::{Band, DType, Dropout, LengthBounds, LseForm, Role, Sequences, Storage, TensorId};

use crate::draft::{OpDraft, TensorDraft};
use crate::order::Order;

/// How the rows of a side are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Dense,
    Padded,
    Lengths,
    Prefix,
    Starts,
    Paged,
}

impl Form {
    pub(crate) fn is_packed(self) -> bool {
        matches!(self, Self::Lengths | Self::Prefix | Self::Starts)
    }
}

/// One side: its form and host numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SideRecipe {
    pub(crate) form: Form,
    pub(crate) bounds: LengthBounds,
    pub(crate) max_total: u32,
}

/// Everything but extents that follow the data.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) num_q_heads: i64,
    pub(crate) num_kv_heads: i64,
    pub(crate) head_dim_qk: i64,
    pub(crate) head_dim_v: i64,
    /// Types of Q, K, V and O.
    pub(crate) dtypes: [DType; 4],
    pub(crate) q: SideRecipe,
    pub(crate) kv: SideRecipe,
    pub(crate) page_size: i64,
    /// Whether both sides are found by one tensor, where they can be.
    pub(crate) shared_lengths: bool,
    pub(crate) one_table: bool,
    pub(crate) softmax_scale: Option<f32>,
    pub(crate) band: Option<Band>,
    pub(crate) soft_cap: Option<f32>,
    /// Type of the bias, and whether it is per sequence and per head.
    pub(crate) bias: Option<(DType, bool, bool)>,
    /// Whether the slopes are per sequence.
    pub(crate) alibi: Option<bool>,
    pub(crate) sink: bool,
    pub(crate) block_mask: bool,
    pub(crate) dropout: Option<f32>,
    pub(crate) lse: Option<LseForm>,
    pub(crate) max: bool,
    pub(crate) sum_exp: bool,
    /// Whether LSE, max and sum-exp are `[B, H, S]` for packed Q.
    pub(crate) padded_row_outputs: bool,
    /// How tensors lie, by position.
    pub(crate) orders: Vec<Order>,
    pub(crate) overridable: bool,
}

/// Extents that may be given anew. Rows are pages where K and V are paged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) batch: i64,
    pub(crate) q: i64,
    pub(crate) o: i64,
    pub(crate) k: i64,
    pub(crate) v: i64,
    pub(crate) table_k: i64,
    pub(crate) table_v: i64,
}

/// A graph to declare: tensors, and an operation that names them by position.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) tensors: Vec<TensorDraft>,
    pub(crate) op: OpDraft,
}

/// Tensors in the order in which they are declared.
struct Tensors<'a> {
    recipe: &'a Recipe,
    rows: Rows,
    drafts: Vec<TensorDraft>,
}

impl Recipe {
    /// Tensors and operation for these extents.
    pub(crate) fn draft(&self, rows: Rows) -> Draft {
        let mut tensors = Tensors { recipe: self, rows, drafts: Vec::new() };
        let [q_dtype, k_dtype, v_dtype, o_dtype] = self.dtypes;
        let q = tensors.of_rows(Role::Q, q_dtype);
        let k = tensors.of_rows(Role::K, k_dtype);
        let v = tensors.of_rows(Role::V, v_dtype);
        let o = tensors.of_rows(Role::O, o_dtype);
        let (q_storage, q_found_by) = tensors.storage(self.q, None);
        let shared = q_found_by.filter(|_| self.shared_lengths);
        let (kv_storage, _) = tensors.storage(self.kv, shared);
        let op = OpDraft {
            q,
            k,
            v,
            o,
            q_storage,
            kv_storage,
            softmax_scale: self.softmax_scale,
            band: self.band,
            soft_cap: self.soft_cap,
            bias: self.bias.map(|bias| tensors.bias(bias)),
            alibi: self.alibi.map(|per_sequence| tensors.slopes(per_sequence)),
            sink: self.sink.then(|| tensors.add("sink", DType::F32, vec![self.num_q_heads])),
            block_mask: self.block_mask.then(|| tensors.block_mask()),
            dropout: self.dropout.map(|probability| Dropout {
                probability,
                seed: tensors.add("seed", DType::I64, vec![1]),
                offset: tensors.add("offset", DType::I64, vec![1]),
            }),
            lse: self.lse.map(|form| (tensors.row_output("lse"), form)),
            max: self.max.then(|| tensors.row_output("max")),
            sum_exp: self.sum_exp.then(|| tensors.row_output("sum_exp")),
        };
        Draft { tensors: tensors.drafts, op }
    }

    /// Greatest length of a sequence of a side whose first tensor has that many rows.
    fn max_len(&self, side: SideRecipe, rows: i64) -> i64 {
        if side.form == Form::Dense { rows } else { rows.min(side.bounds.max.into()) }
    }
}

impl Tensors<'_> {
    fn add(&mut self, name: &str, dtype: DType, extents: Vec<i64>) -> TensorId {
        let at = self.drafts.len();
        let order = self.recipe.orders.get(at).copied().unwrap_or_default();
        let is_output = ["o", "lse", "max", "sum_exp"].contains(&name);
        self.drafts.push(TensorDraft {
            name: name.into(),
            id: order.id(at),
            dtype,
            strides: order.strides(&extents, is_output),
            extents,
            align: order.align(dtype),
        });
        TensorId(i64::try_from(at).unwrap_or(i64::MAX))
    }

    /// Q, K, V or O.
    fn of_rows(&mut self, role: Role, dtype: DType) -> TensorId {
        let Recipe { num_q_heads, num_kv_heads, head_dim_qk, head_dim_v, page_size, .. } =
            *self.recipe;
        let (form, rows, heads, columns) = match role {
            Role::Q => (self.recipe.q.form, self.rows.q, num_q_heads, head_dim_qk),
            Role::O => (self.recipe.q.form, self.rows.o, num_q_heads, head_dim_v),
            Role::K => (self.recipe.kv.form, self.rows.k, num_kv_heads, head_dim_qk),
            _ => (self.recipe.kv.form, self.rows.v, num_kv_heads, head_dim_v),
        };
        let extents = match form {
            Form::Dense | Form::Padded => vec![self.rows.batch, heads, rows, columns],
            Form::Paged => vec![rows, heads, page_size, columns],
            _ => vec![rows, heads, columns],
        };
        self.add(role.name(), dtype, extents)
    }

    /// The storage of a side, and the tensor of its lengths or prefix. `shared` is that of the other
    /// side, taken where it has the right extent.
    fn storage(
        &mut self,
        side: SideRecipe,
        shared: Option<TensorId>,
    ) -> (Storage, Option<TensorId>) {
        let SideRecipe { form, bounds, max_total } = side;
        let entries = self.rows.batch + i64::from(form == Form::Prefix);
        let fits = |id: &TensorId| {
            let at = usize::try_from(id.0).unwrap_or(usize::MAX);
            self.drafts.get(at).is_some_and(|draft| draft.extents == [entries])
        };
        let shared = shared.filter(fits);
        if form == Form::Dense {
            return (Storage::Dense, None);
        }
        let name = if form == Form::Prefix { "prefix" } else { "lengths" };
        let found_by = shared.unwrap_or_else(|| self.add(name, DType::I32, vec![entries]));
        let packed = |sequences| Storage::Packed { sequences, bounds, max_total };
        let lengths = found_by;
        let storage = match form {
            Form::Dense => Storage::Dense,
            Form::Padded => Storage::Padded { lengths, bounds },
            Form::Lengths => packed(Sequences::Lengths(lengths)),
            Form::Prefix => packed(Sequences::Prefix(found_by)),
            Form::Starts => {
                let starts = self.add("starts", DType::I32, vec![entries]);
                packed(Sequences::Starts { starts, lengths })
            }
            Form::Paged => {
                let Rows { table_k: pages_k, table_v: pages_v, .. } = self.rows;
                let table_k = self.add("table_k", DType::I32, vec![entries, pages_k]);
                let table_v = match self.recipe.one_table {
                    true => table_k,
                    false => self.add("table_v", DType::I32, vec![entries, pages_v]),
                };
                Storage::Paged { table_k, table_v, lengths, bounds }
            }
        };
        (storage, Some(found_by))
    }

    /// Rows of a sequence of Q and of K that a tensor over both must have room for.
    fn lengths(&self) -> [i64; 2] {
        let Recipe { q, kv, page_size, one_table, .. } = *self.recipe;
        let max_len = |side: SideRecipe, rows| match side.form {
            form if form.is_packed() => side.bounds.max.into(),
            _ => self.recipe.max_len(side, rows),
        };
        let pages =
            if one_table { self.rows.table_k } else { self.rows.table_k.min(self.rows.table_v) };
        let kv_rows =
            if kv.form == Form::Paged { pages.saturating_mul(page_size) } else { self.rows.k };
        [max_len(q, self.rows.q), max_len(kv, kv_rows)]
    }

    fn bias(&mut self, (dtype, per_batch, per_head): (DType, bool, bool)) -> TensorId {
        let [len_q, len_kv] = self.lengths();
        let extent = |form, rows, len| match form {
            Form::Dense | Form::Padded => rows,
            _ => len,
        };
        let rows = extent(self.recipe.q.form, self.rows.q, len_q);
        let columns = extent(self.recipe.kv.form, self.rows.k, len_kv);
        let or_one = |each, count| if each { count } else { 1 };
        let extents = vec![
            or_one(per_batch, self.rows.batch),
            or_one(per_head, self.recipe.num_q_heads),
            rows,
            columns,
        ];
        self.add("bias", dtype, extents)
    }

    fn slopes(&mut self, per_sequence: bool) -> TensorId {
        let heads = self.recipe.num_q_heads;
        let extents = if per_sequence { vec![self.rows.batch, heads] } else { vec![heads] };
        self.add("alibi_slopes", DType::F32, extents)
    }

    fn block_mask(&mut self) -> TensorId {
        let [len_q, len_kv] = self.lengths();
        let tiles = |rows: i64| rows.unsigned_abs().div_ceil(128).cast_signed();
        let bytes = tiles(len_kv).unsigned_abs().div_ceil(8).cast_signed();
        let extents = vec![self.rows.batch, self.recipe.num_q_heads, tiles(len_q), bytes];
        self.add("block_mask", DType::U8, extents)
    }

    /// LSE, max or sum-exp.
    fn row_output(&mut self, name: &str) -> TensorId {
        let Recipe { q, num_q_heads: heads, padded_row_outputs, .. } = *self.recipe;
        let [len_q, _] = self.lengths();
        let extents = match q.form.is_packed() {
            false => vec![self.rows.batch, heads, self.rows.q],
            true if padded_row_outputs => vec![self.rows.batch, heads, len_q],
            true => vec![self.rows.q, heads],
        };
        self.add(name, DType::F32, extents)
    }
}
