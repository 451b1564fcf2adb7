//! Strides, shared buffers and offsets.

use proptest::prelude::*;

use super::capacity;
use crate::case::{Case, Place, Places, RowLayout, SideCase};

/// Where one tensor lies, in terms that suit any extents.
#[derive(Clone, Debug)]
struct Layout {
    /// Which order of the axes.
    order: usize,
    /// Whether columns lie next to one another, whatever the order of the others.
    columns_first: bool,
    /// Elements from one column to the next.
    step: u64,
    /// Elements left free after each axis, innermost first.
    gaps: [u64; 4],
    /// Axis whose stride is 0, on inputs.
    broadcast: Option<usize>,
    /// Puts noise into the strides of extents of 1.
    noise: bool,
    offset: u64,
}

/// Rows that share a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    /// `[rows, K then V]`.
    Kv,
    /// `[rows, Q then O]`.
    Qo,
}

/// The choices of all tensors.
#[derive(Clone, Debug)]
pub(super) struct Layouts {
    q: Option<Layout>,
    k: Option<Layout>,
    v: Option<Layout>,
    o: Option<Layout>,
    bias: Option<Layout>,
    rows: Option<Layout>,
    lengths: Option<i64>,
    sharing: Option<Sharing>,
}

pub(super) fn layouts() -> impl Strategy<Value = Layouts> {
    let sharing = prop_oneof![
        8 => Just(None), 1 => Just(Some(Sharing::Kv)), 1 => Just(Some(Sharing::Qo))
    ];
    let lengths = prop_oneof![5 => Just(None), 1 => (1..4_i64).prop_map(Some)];
    let one = || prop_oneof![2 => Just(None), 1 => layout().prop_map(Some)];
    (one(), one(), one(), one(), one(), one(), lengths, sharing).prop_map(
        |(q, k, v, o, bias, rows, lengths, sharing)| Layouts {
            q,
            k,
            v,
            o,
            bias,
            rows,
            lengths,
            sharing,
        },
    )
}

fn layout() -> impl Strategy<Value = Layout> {
    let gap = || prop_oneof![2 => Just(0_u64), 1 => 0..9_u64];
    let step = prop_oneof![6 => Just(1_u64), 1 => 2..4_u64];
    let broadcast = prop_oneof![7 => Just(None), 1 => (0..2_usize).prop_map(Some)];
    let order = prop_oneof![1 => Just(0_usize), 2 => 0..24_usize];
    let offset = prop_oneof![2 => Just(0_u64), 1 => 1..9_u64];
    (order, step, [gap(), gap(), gap(), gap()], broadcast, any::<bool>(), offset).prop_map(
        |(order, step, gaps, broadcast, noise, offset)| Layout {
            order,
            columns_first: false,
            step,
            gaps,
            broadcast,
            noise,
            offset,
        },
    )
}

impl Layout {
    fn place(&self, extents: &[u64], is_output: bool) -> Place {
        let mut axes: Vec<usize> = (0..extents.len()).rev().collect();
        // The order as a number in the factorial system, 0 being row-major.
        let mut code = self.order;
        for at in usize::from(self.columns_first)..axes.len() {
            let left = axes.len() - at;
            axes[at..].rotate_left(code % left);
            code /= left;
        }
        let mut strides = vec![0_i64; extents.len()];
        let mut next = self.step;
        for (&axis, gap) in axes.iter().zip(self.gaps) {
            let is_noise = self.noise && extents[axis] == 1;
            strides[axis] = if is_noise { NOISE } else { i64::try_from(next).unwrap_or(NOISE) };
            next = next * extents[axis].max(1) + gap;
        }
        if let Some(axis) = self.broadcast.filter(|_| !is_output) {
            strides[axis] = 0;
        }
        Place { strides: Some(strides), offset: self.offset, ..Place::default() }
    }
}

/// What a producer writes where it does not matter.
const NOISE: i64 = 3_331_333;

/// Elements in 16 bytes, of two bytes each.
const CHUNK: u64 = 8;

impl Layouts {
    /// Rows of Q, K, V and O are runs of columns, and begin at multiples of 16 bytes.
    pub(super) fn keep_rows_whole(&mut self) {
        for layout in [&mut self.q, &mut self.k, &mut self.v, &mut self.o].into_iter().flatten() {
            (layout.columns_first, layout.step) = (true, 1);
            layout.gaps = layout.gaps.map(|gap| gap * CHUNK);
            layout.offset *= CHUNK;
        }
    }

    pub(super) fn places(&self, case: &Case) -> Places {
        let (q, o) = (&self.q, &self.o);
        let (columns, columns_v) = (case.head_dim_qk, case.head_dim_v());
        let (heads, kv_heads) = (case.num_q_heads, case.num_kv_heads);
        let on_q = |columns| rows_extents(&case.q, (case.batch, heads, case.seqlen_q), columns);
        let on_kv =
            |columns| rows_extents(&case.kv, (case.batch, kv_heads, case.seqlen_kv), columns);
        let mut places = Places::default();
        let mut put = |role: &str, layout: &Option<Layout>, extents: Vec<u64>, is_output| {
            if let Some(layout) = layout {
                places.0.insert(role.into(), layout.place(&extents, is_output));
            }
        };
        put("q", q, on_q(columns), false);
        put("o", o, on_q(columns_v), true);
        put("k", &self.k, on_kv(columns), false);
        put("v", &self.v, on_kv(columns_v), false);
        if let Some(bias) = case.bias {
            let or_one = |each, count| if each { count } else { 1 };
            let (b, h) = (or_one(bias.per_batch, case.batch), or_one(bias.per_head, heads));
            put("bias", &self.bias, vec![b, h, case.seqlen_q, case.seqlen_kv], false);
        }
        if case.row_outputs == RowLayout::Natural {
            let extents = match case.q.is_packed() {
                true => vec![capacity(&case.q), heads],
                false => vec![case.batch, heads, case.seqlen_q],
            };
            for (role, asked) in
                [("lse", case.lse.is_some()), ("max", case.max), ("sum_exp", case.sum_exp)]
            {
                if asked {
                    put(role, &self.rows, extents.clone(), true);
                }
            }
        }
        self.place_lengths(case, &mut places);
        self.share(case, &mut places);
        places
    }

    fn place_lengths(&self, case: &Case, places: &mut Places) {
        let Some(stride) = self.lengths else { return };
        for (side, name) in [(&case.q, "q"), (&case.kv, "kv")] {
            let what = match side {
                SideCase::Dense => continue,
                SideCase::PackedPrefix { .. } => "prefix",
                _ => "lengths",
            };
            let place = Place { strides: Some(vec![stride]), ..Place::default() };
            places.0.insert(format!("{name}_{what}"), place);
        }
    }

    /// Two tensors in one buffer, the row of one behind that of the other.
    fn share(&self, case: &Case, places: &mut Places) {
        let (side, heads, roles) = match self.sharing {
            Some(Sharing::Kv) => (&case.kv, case.num_kv_heads, ["k", "v"]),
            // Offsets count elements, which must be of one size to lie side by side.
            Some(Sharing::Qo) if case.o_dtype().bytes() == case.dtype.bytes() => {
                (&case.q, case.num_q_heads, ["q", "o"])
            }
            _ => return,
        };
        let (first, second) = (heads * case.head_dim_qk, heads * case.head_dim_v());
        let row = first + second;
        let rows = match roles {
            ["k", "v"] => case.seqlen_kv,
            _ => case.seqlen_q,
        };
        let columns = [case.head_dim_qk, case.head_dim_v()];
        for ((role, columns), offset) in roles.into_iter().zip(columns).zip([0, first]) {
            let strides = match side {
                SideCase::Dense | SideCase::Padded { .. } => {
                    vec![rows.max(1) * row, columns, row, 1]
                }
                SideCase::Paged { page_size, .. } => vec![page_size * row, columns, row, 1],
                _ => vec![row, columns, 1],
            };
            let strides = strides.into_iter().map(|stride| i64::try_from(stride).unwrap_or(NOISE));
            let place = Place {
                strides: Some(strides.collect()),
                buffer: Some(roles.concat()),
                offset,
                align: None,
            };
            places.0.insert(role.into(), place);
        }
    }
}

/// Extents of Q, K, V or O.
fn rows_extents(
    side: &SideCase,
    (batch, heads, seqlen): (u64, u64, u64),
    columns: u64,
) -> Vec<u64> {
    match side {
        SideCase::Dense | SideCase::Padded { .. } => vec![batch, heads, seqlen, columns],
        SideCase::Paged { num_pages, page_size, .. } => {
            vec![num_pages.unwrap_or(0), heads, *page_size, columns]
        }
        packed => vec![capacity(packed), heads, columns],
    }
}
