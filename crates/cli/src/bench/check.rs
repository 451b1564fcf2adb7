//! Outputs against the f64 reference, on rows drawn by lot where all would take too long.

use std::collections::BTreeSet;

use frazil::{DType, Role};
use frazil_conformance::reference::Head;
use frazil_conformance::tolerance::Tolerance;
use half::{bf16, f16};
use rayon::prelude::*;

use super::cell::Cell;
use super::inputs::Image;

/// Products of the reference for one cell; a second or so of one core.
const PRODUCTS: u64 = 400_000_000;

/// Fewest rows compared, where there are as many.
const FEWEST_ROWS: u64 = 8;

/// Most heads that a sample is spread over.
const MOST_HEADS: u64 = 16;

/// What comparing showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Finding {
    /// Rows of O that were compared.
    pub(super) rows: u64,
    /// Greatest difference from the reference.
    pub(super) max_diff: f64,
    /// Greatest difference as a share of what is allowed of its element; above 1 is wrong.
    pub(super) tol_share: f64,
}

/// Rows of one query head of one sequence.
#[derive(Debug)]
struct Sample {
    b: u64,
    h: u64,
    rows: BTreeSet<u64>,
}

/// Compares what came back as O with what the inputs imply.
pub(super) fn check(cell: &Cell, images: &[Image], o: &[u8], seed: u64) -> Finding {
    let checker = Checker::new(cell, images, o);
    let nothing = Finding { rows: 0, max_diff: 0.0, tol_share: 0.0 };
    samples(cell, seed).par_iter().map(|sample| checker.sample(sample)).reduce(
        || nothing,
        |a, b| Finding {
            rows: a.rows + b.rows,
            max_diff: worse(a.max_diff, b.max_diff),
            tol_share: worse(a.tol_share, b.tol_share),
        },
    )
}

/// The greater; no number is worse than every number.
fn worse(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::INFINITY } else { a.max(b) }
}

/// Draws rows: all of them where that is little work, else some of a few heads, the first and the
/// last row of each among them.
fn samples(cell: &Cell, seed: u64) -> Vec<Sample> {
    let shape = &cell.shape;
    let (lengths, heads) = (shape.lengths(), shape.num_q_heads);
    let columns = shape.head_dim_qk + shape.head_dim_v;
    let products = |&(q, kv): &(u64, u64)| q.saturating_mul(kv).saturating_mul(columns);
    let all: u64 = lengths.iter().map(products).fold(0, u64::saturating_add).saturating_mul(heads);
    let live: Vec<u64> = (0..shape.batch).filter(|&b| lengths[index(b)].0 > 0).collect();
    let whole = |b: u64, h: u64| Sample { b, h, rows: (0..lengths[index(b)].0).collect() };
    if all <= PRODUCTS {
        return live
            .iter()
            .flat_map(|&b| (0..heads).map(move |h| (b, h)))
            .map(|(b, h)| whole(b, h))
            .collect();
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let mut chosen = BTreeSet::from([(live[0], 0), (live[live.len() - 1], heads - 1)]);
    let most = MOST_HEADS.min(heads * live.len() as u64);
    while (chosen.len() as u64) < most {
        chosen.insert((live[random.usize(..live.len())], random.u64(..heads)));
    }
    let share = PRODUCTS / most;
    let sample = |(b, h): (u64, u64)| {
        let (len_q, len_kv) = lengths[index(b)];
        let count = (share / (len_kv * columns).max(1)).max(FEWEST_ROWS.div_ceil(most)).max(2);
        if count >= len_q {
            return whole(b, h);
        }
        let mut rows = BTreeSet::from([0, len_q - 1]);
        while (rows.len() as u64) < count {
            rows.insert(random.u64(..len_q));
        }
        Sample { b, h, rows }
    };
    chosen.into_iter().map(sample).collect()
}

struct Checker<'a> {
    cell: &'a Cell,
    images: &'a [Image],
    o: &'a [u8],
    /// First packed row of each sequence.
    starts: Vec<u64>,
    tolerance: Tolerance,
}

impl<'a> Checker<'a> {
    fn new(cell: &'a Cell, images: &'a [Image], o: &'a [u8]) -> Self {
        let starts = cell.shape.lengths().into_iter().scan(0, |next, (length, _)| {
            let start = *next;
            *next += length;
            Some(start)
        });
        let tolerance = Tolerance::new(cell.dtype, cell.dtype, None);
        Self { cell, images, o, starts: starts.collect(), tolerance }
    }

    fn image(&self, role: Role) -> &Image {
        let image = self.images.iter().find(|image| image.tensor.role == role);
        image.expect("a cell has Q, K, V and O, and what it says it has")
    }

    fn sample(&self, sample: &Sample) -> Finding {
        let shape = &self.cell.shape;
        let (len_q, len_kv) = shape.lengths()[index(sample.b)];
        let (dim_qk, dim_v) = (shape.head_dim_qk, shape.head_dim_v);
        let kv_head = sample.h / (shape.num_q_heads / shape.num_kv_heads);
        let gather = |role, head, rows: u64, columns| -> Vec<f32> {
            let image = self.image(role);
            (0..rows)
                .flat_map(|i| self.row(image, &image.bytes, (sample.b, head, i), columns))
                .collect()
        };
        let q = gather(Role::Q, sample.h, len_q, dim_qk);
        let k = gather(Role::K, kv_head, len_kv, dim_qk);
        let v = gather(Role::V, kv_head, len_kv, dim_v);
        let sink = self.cell.sink.then(|| {
            let sink = self.image(Role::Sink);
            f64::from(values(sink.tensor.dtype, &sink.bytes)[index(sample.h)])
        });
        let head = Head {
            len_q: index(len_q),
            len_kv: index(len_kv),
            head_dim_qk: index(dim_qk),
            head_dim_v: index(dim_v),
            q: &q,
            k: &k,
            v: &v,
            softmax_scale: f64::from(1.0 / (dim_qk as f32).sqrt()),
            soft_cap: None,
            bias: None,
            alibi: None,
            band: self.cell.mask.band(),
            sink,
        };
        let mut finding = Finding { rows: 0, max_diff: 0.0, tol_share: 0.0 };
        let o = self.image(Role::O);
        for &i in &sample.rows {
            let want = head.row(index(i));
            let got = self.row(o, self.o, (sample.b, sample.h, i), dim_v);
            for (column, got) in got.into_iter().enumerate() {
                let diff = (f64::from(got) - want.o[column]).abs();
                let allowed = self.tolerance.of_o(&want, column);
                finding.max_diff = worse(finding.max_diff, diff);
                // A difference of 0 is none of whatever is allowed.
                let share = if diff == 0.0 { 0.0 } else { diff / allowed };
                finding.tol_share = worse(finding.tol_share, share);
            }
            finding.rows += 1;
        }
        finding
    }

    /// A row of Q, K, V or O.
    fn row(
        &self,
        image: &Image,
        bytes: &[u8],
        (b, h, i): (u64, u64, u64),
        columns: u64,
    ) -> Vec<f32> {
        let geometry = &image.tensor.geometry;
        let stride = |axis| geometry.stride(axis);
        let on_kv = matches!(image.tensor.role, Role::K | Role::V);
        let first = match (&self.cell.shape.packed, self.cell.shape.page_size) {
            (Some(_), _) => (self.starts[index(b)] + i) * stride(0) + h * stride(1),
            (None, Some(page_size)) if on_kv => {
                self.page(b, i / page_size) * stride(0) + h * stride(1) + i % page_size * stride(2)
            }
            (None, _) => b * stride(0) + h * stride(1) + i * stride(2),
        };
        let size = image.tensor.dtype.bytes();
        let place = index(first * size)..index((first + columns) * size);
        values(image.tensor.dtype, &bytes[place])
    }

    fn page(&self, b: u64, at: u64) -> u64 {
        let table = self.image(Role::TableK);
        let entry = b * table.tensor.geometry.stride(0) + at * table.tensor.geometry.stride(1);
        let bytes = table.bytes.as_chunks::<4>().0[index(entry)];
        u64::from(u32::from_le_bytes(bytes))
    }
}

/// Floating-point numbers, widened.
fn values(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    let pairs = || bytes.as_chunks::<2>().0.iter();
    match dtype {
        DType::F16 => pairs().map(|&pair| f16::from_le_bytes(pair).to_f32()).collect(),
        DType::Bf16 => pairs().map(|&pair| bf16::from_le_bytes(pair).to_f32()).collect(),
        _ => bytes.as_chunks::<4>().0.iter().map(|&four| f32::from_le_bytes(four)).collect(),
    }
}

/// Counts of what lies in memory.
fn index(count: u64) -> usize {
    usize::try_from(count).expect("in host memory")
}

#[cfg(test)]
mod tests {
    use frazil_conformance::declare::declare;

    use super::*;
    use crate::bench::cell::{Mask, Shape};
    use crate::bench::device::{BenchDevice, Cache};
    use crate::bench::host::Host;
    use crate::bench::inputs::draw;
    use crate::bench::preset::select;

    fn cell(config: &str) -> Cell {
        let (preset, _) = config.split_once('/').unwrap();
        let cells = select(&[preset.to_owned()]).unwrap();
        cells.into_iter().find(|cell| cell.config == config).unwrap()
    }

    /// Inputs of a cell and what the host engine makes of them.
    fn answer(host: &Host, cell: &Cell) -> (Vec<Image>, Vec<u8>) {
        let declared = declare(&cell.case(1)).unwrap();
        let images = draw(cell, &declared, 1).unwrap();
        let target = std::sync::Arc::new(host.device().target().clone());
        let router = frazil::Router::from_registrations().unwrap();
        let plans = router.plans(&declared.facts, &target).unwrap();
        let executable = plans[0].build(host.device()).unwrap();
        let mut loaded = host.load(&images, vec![executable], Cache::Warm).unwrap();
        loaded.time(0, 1).unwrap();
        let o = images.iter().position(|image| image.tensor.role == Role::O).unwrap();
        let bytes = loaded.fetch(o).unwrap();
        (images, bytes)
    }

    #[test]
    fn right_answers_of_every_form_are_right_and_others_are_not() {
        let host = Host::open();
        // Values narrower than keys, a window with sinks, grouped heads, an odd length.
        let shape = Shape {
            batch: 2,
            seqlen_q: 77,
            seqlen_kv: 77,
            num_q_heads: 4,
            num_kv_heads: 2,
            head_dim_qk: 24,
            head_dim_v: 16,
            ..Shape::default()
        };
        let window = (Mask::Window(32), true);
        for cell in [
            cell("quick/prefill/d64_h8_b1_s256_causal"),
            cell("quick/packed/d32_h12_sentences_full"),
            cell("quick/decode/d128_h32x8_b4_q1_s4096_page16_full"),
            Cell::new("test", "", DType::F16, window, shape),
        ] {
            let config = cell.config.as_str();
            let (mut images, o) = answer(&host, &cell);
            let right = check(&cell, &images, &o, 1);
            assert!(right.rows >= FEWEST_ROWS, "{config}: {right:?}");
            assert!(right.max_diff > 0.0 && right.tol_share <= 1.0, "{config}: {right:?}");
            // The same bytes are no answer to other inputs.
            let v = images.iter().position(|image| image.tensor.role == Role::V).unwrap();
            let middle = images[v].bytes.len() / 2;
            images[v].bytes.rotate_left(middle - middle % 1024);
            assert!(check(&cell, &images, &o, 1).tol_share > 1.0, "{config}");
            let unwritten = vec![0xff; o.len()];
            assert_eq!(check(&cell, &images, &unwritten, 1).tol_share, f64::INFINITY, "{config}");
        }
    }

    #[test]
    fn large_cells_are_sampled_from_end_to_end() {
        let drawn = samples(&cell("h200/dense/d128_h16_b1_s16384_causal"), 1);
        assert_eq!(drawn.len() as u64, MOST_HEADS);
        let rows: u64 = drawn.iter().map(|sample| sample.rows.len() as u64).sum();
        assert!((2 * MOST_HEADS..16_384).contains(&rows), "{rows}");
        for sample in &drawn {
            assert!(sample.rows.contains(&0) && sample.rows.contains(&16_383));
        }
        let drawn = samples(&cell("quick/prefill/d64_h8_b1_s256_full"), 1);
        let rows: usize = drawn.iter().map(|sample| sample.rows.len()).sum();
        assert_eq!(rows, 8 * 256);
    }
}
