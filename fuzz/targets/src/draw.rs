//! Recipes and extents drawn from the bytes of an input.

use frazil::{Align, Band, DType, LengthBounds, LseForm};

use crate::order::Order;
use crate::recipe::{Form, Recipe, Rows, SideRecipe};
use crate::source::Source;

/// How large graphs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Small enough to be executed thousands of times a second, and asks for what engines serve.
    Executed,
    /// Anything that can be declared, and more.
    Declared,
}

/// Most tensors of a draft.
const MAX_TENSORS: usize = 24;

/// Extents at which tiles, pages and int32 end.
const EDGES: [i64; 14] =
    [0, 1, 2, 64, 127, 128, 129, 255, 257, 16_384, 16_385, 1 << 20, (1 << 31) - 1, 1 << 31];

/// A recipe with the extents of its declaration.
pub(crate) fn recipe(source: &mut Source<'_>, scale: Scale) -> (Recipe, Rows) {
    let executed = scale == Scale::Executed;
    let batch = extent(source, scale, 4);
    let num_kv_heads = 1 + source.up_to(2);
    let group = 1 + source.up_to(2);
    let head_dim_qk = head_dim(source, scale);
    let head_dim_v = if source.flag() { head_dim_qk } else { head_dim(source, scale) };
    let dtypes = dtypes(source, scale);
    let forms = [Form::Dense, Form::Padded, Form::Lengths, Form::Prefix, Form::Starts, Form::Paged];
    let (q_form, kv_form) = (source.pick(&forms[..5]), source.pick(&forms));
    let page_size = source.pick(&[1, 7, 16, 64, 3]);
    let one_table = source.flag();
    let (q, [q_rows, o_rows]) = side(source, scale, (q_form, batch, 1), false);
    let (kv, [k_rows, v_rows]) = side(source, scale, (kv_form, batch, page_size), true);
    let pages = |source: &mut Source<'_>| {
        let live = u64::from(kv.bounds.max).div_ceil(page_size.unsigned_abs());
        i64::try_from(live).unwrap_or(i64::MAX) + source.up_to(2)
    };
    let rows = Rows {
        batch,
        q: q_rows,
        o: o_rows,
        k: k_rows,
        v: v_rows,
        table_k: pages(source),
        table_v: pages(source),
    };
    let recipe = Recipe {
        num_q_heads: group * num_kv_heads,
        num_kv_heads,
        head_dim_qk,
        head_dim_v,
        dtypes,
        q,
        kv,
        page_size,
        shared_lengths: source.flag(),
        one_table,
        softmax_scale: source.maybe(4, |source| scale_of_scores(source)),
        band: source.maybe(3, band),
        soft_cap: source.maybe(5, |source| source.pick(&[30.0, 0.5, f32::MIN_POSITIVE, f32::MAX])),
        bias: source.maybe(4, |source| {
            let dtype = if source.flag() { dtypes[0] } else { DType::F32 };
            (dtype, source.flag(), source.flag())
        }),
        alibi: source.maybe(4, Source::flag),
        sink: source.one_in(4),
        block_mask: !executed && source.one_in(16),
        dropout: if executed { None } else { source.maybe(16, |source| source.pick(&[0.0, 0.5])) },
        lse: source.maybe(3, |source| source.pick(&[LseForm::Natural, LseForm::Base2])),
        max: source.one_in(4),
        sum_exp: source.one_in(4),
        padded_row_outputs: source.flag(),
        overridable: source.one_in(3),
        orders: (0..MAX_TENSORS).map(|_| Order::draw(source)).collect(),
    };
    (recipe, rows)
}

/// Extents for an execute of a graph that was declared with `rows`: none is larger.
pub(crate) fn smaller(source: &mut Source<'_>, recipe: &Recipe, rows: Rows) -> Rows {
    let mut less = |extent: i64| extent - source.up_to(extent.min(3));
    let batch = less(rows.batch);
    let (q, k) = (less(rows.q), less(rows.k));
    let packed_q = recipe.q.form.is_packed();
    let apart = recipe.kv.form.is_packed() || recipe.kv.form == Form::Paged;
    Rows {
        batch,
        q,
        o: if packed_q { less(rows.o) } else { q },
        k,
        v: if apart { less(rows.v) } else { k },
        table_k: less(rows.table_k),
        table_v: less(rows.table_v),
    }
}

/// Form and bounds of a side, and the rows (or pages) of its two tensors. Keys may be so many that an
/// engine takes them in pieces.
fn side(
    source: &mut Source<'_>,
    scale: Scale,
    (form, batch, page_size): (Form, i64, i64),
    may_be_long: bool,
) -> (SideRecipe, [i64; 2]) {
    let mut seqlen = extent(source, scale, 24);
    if may_be_long && (22..24).contains(&seqlen) {
        seqlen = 200 + source.up_to(2000);
    }
    let most = u32::try_from(seqlen).unwrap_or(u32::MAX);
    let max = most - u32::try_from(source.up_to(i64::from(most.min(3)))).unwrap_or(0);
    let min = source.maybe(3, |source| source.up_to(i64::from(max.min(2))));
    let bounds =
        LengthBounds { min: min.and_then(|min| u32::try_from(min).ok()).unwrap_or(0), max };
    let total = batch.saturating_mul(seqlen);
    let total = (total - source.up_to(total.min(2))).max(0);
    let max_total = u32::try_from(total).unwrap_or(u32::MAX);
    let mut capacity = || total.saturating_add(source.up_to(3));
    let rows = match form {
        Form::Dense | Form::Padded => [seqlen, seqlen],
        Form::Paged => {
            let pages = seqlen / page_size.max(1);
            [pages + source.up_to(4), pages + source.up_to(4)]
        }
        _ => [capacity(), capacity()],
    };
    (SideRecipe { form, bounds, max_total }, rows)
}

fn extent(source: &mut Source<'_>, scale: Scale, usual: i64) -> i64 {
    match source.below(16) {
        15 if scale == Scale::Declared => source.pick(&EDGES),
        14 if usual > 8 => 120 + source.up_to(20),
        13 => 0,
        _ => source.up_to(usual),
    }
}

fn head_dim(source: &mut Source<'_>, scale: Scale) -> i64 {
    match source.below(16) {
        15 if scale == Scale::Declared => source.pick(&EDGES).max(1),
        14 => 120 + source.up_to(20),
        8..=13 => 1 + source.up_to(23),
        _ => source.pick(&[8, 16, 24]),
    }
}

/// Of Q, K, V and O.
fn dtypes(source: &mut Source<'_>, scale: Scale) -> [DType; 4] {
    let served = [DType::F32, DType::F16, DType::Bf16];
    let all = [DType::F32, DType::F16, DType::Bf16, DType::F8E4m3, DType::F8E5m2];
    let from = if scale == Scale::Declared { &all[..] } else { &served[..] };
    let first = source.pick(from);
    let mut dtypes = [first; 4];
    if source.one_in(4) {
        dtypes.fill_with(|| source.pick(from));
    }
    dtypes
}

fn scale_of_scores(source: &mut Source<'_>) -> f32 {
    source.pick(&[0.125, 0.0, -1.0, f32::MAX, f32::MIN_POSITIVE, -0.0, 3e38])
}

fn band(source: &mut Source<'_>) -> Band {
    let side = |source: &mut Source<'_>| {
        let edges = [0, 1, 2, 5, 127, 128, 1 << 31, u32::MAX];
        source.flag().then(|| source.pick(&edges))
    };
    Band {
        align: source.pick(&[Align::TopLeft, Align::BottomRight]),
        left: side(source),
        right: side(source),
    }
}
