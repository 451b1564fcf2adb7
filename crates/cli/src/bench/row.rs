//! One line of results, ours or a peer's: the schema that `benches/results/README.md` explains.

use frazil::DType;
use serde::{Deserialize, Serialize};

use super::cell::{Cell, Mask};
use super::work::Work;

/// A cell on an engine and a device.
///
/// Fields stand in the order of the columns. What a row has no answer for is empty.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    /// UTC, `2026-11-29T12:00:00Z`.
    pub(super) date: String,
    /// Product name.
    pub(super) device: String,
    pub(super) driver: String,
    /// Names and versions of the software; ours begins with `frazil `.
    pub(super) versions: String,
    /// Name of the cell.
    pub(super) config: String,
    pub(super) model: String,
    pub(super) engine: String,
    /// Config of the engine's plan.
    pub(super) plan: String,
    pub(super) dtype: DType,
    pub(super) mask: Mask,
    pub(super) sink: bool,
    /// `dense`, `packed`, `paged_16`.
    pub(super) storage: String,
    /// Name of the list of lengths, for packed cells.
    pub(super) lengths: String,
    pub(super) batch: u64,
    pub(super) q_seqlen: u64,
    pub(super) kv_seqlen: u64,
    /// Live rows of all sequences.
    pub(super) total_q: u64,
    pub(super) total_kv: u64,
    pub(super) num_q_heads: u64,
    pub(super) num_kv_heads: u64,
    pub(super) head_dim_qk: u64,
    pub(super) head_dim_v: u64,
    /// `cold` or `warm`.
    pub(super) cache: String,
    pub(super) status: Status,
    /// Timed rounds that count.
    pub(super) samples: Option<usize>,
    /// Median of one execute, in microseconds.
    pub(super) time_us: Option<f64>,
    /// Ends of a 95% interval for the median.
    pub(super) time_us_low: Option<f64>,
    pub(super) time_us_high: Option<f64>,
    /// Of visible pairs; empty for decode.
    pub(super) tflops: Option<f64>,
    /// Of the rows of K and V that a query sees, read once; empty but for decode.
    pub(super) gbs: Option<f64>,
    /// `compute` or `memory`: which of the next two binds.
    pub(super) limit: String,
    pub(super) limit_tflops: Option<f64>,
    pub(super) limit_gbs: Option<f64>,
    /// Least time that the limit allows, over the time taken.
    pub(super) limit_share: Option<f64>,
    /// Times as fast as the engine ranked first, paired by round; empty where one is timed alone.
    pub(super) speedup: Option<f64>,
    pub(super) speedup_low: Option<f64>,
    pub(super) speedup_high: Option<f64>,
    /// The fastest peer that was given for the cell, and its time over ours.
    pub(super) best_peer: String,
    pub(super) best_peer_speedup: Option<f64>,
    /// Greatest difference from the reference.
    pub(super) max_diff: Option<f64>,
    /// The same as a share of what is allowed.
    pub(super) tol_share: Option<f64>,
    /// Rows of O that were compared.
    pub(super) rows_compared: Option<u64>,
    /// Why there is no time, or what else is to be said.
    pub(super) note: String,
}

/// How a row came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// Timed, and right where it was compared.
    Measured,
    /// Timed and wrong.
    Wrong,
    /// The engine does not serve it.
    Declined,
    /// Too large for the device or for the time that was given.
    Skipped,
    /// A fault.
    Error,
    /// What the device does at most, no attention.
    Limit,
}

impl Status {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Wrong => "wrong",
            Self::Declined => "declined",
            Self::Skipped => "skipped",
            Self::Error => "error",
            Self::Limit => "limit",
        }
    }
}

/// What is the same in every row of a run.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) device: String,
    pub(super) driver: String,
    pub(super) cache: &'static str,
}

impl Row {
    /// A row of a cell on an engine, with no result yet.
    pub(super) fn new(context: &Context, cell: &Cell, engine: &str) -> Self {
        let shape = &cell.shape;
        let lengths = shape.lengths();
        let mut row = Self::blank(context, cell.dtype, cell.mask);
        row.config.clone_from(&cell.config);
        row.model.clone_from(&cell.model);
        row.engine = engine.into();
        row.sink = cell.sink;
        row.storage = shape.storage();
        row.lengths = shape.packed.as_ref().map(|(name, _)| name.clone()).unwrap_or_default();
        (row.batch, row.q_seqlen, row.kv_seqlen) = (shape.batch, shape.seqlen_q, shape.seqlen_kv);
        row.total_q = lengths.iter().map(|&(q, _)| q).sum();
        row.total_kv = lengths.iter().map(|&(_, kv)| kv).sum();
        (row.num_q_heads, row.num_kv_heads) = (shape.num_q_heads, shape.num_kv_heads);
        (row.head_dim_qk, row.head_dim_v) = (shape.head_dim_qk, shape.head_dim_v);
        row
    }

    /// A row of a limit: its name as the config, how it was measured as the engine.
    pub(super) fn of_limit(context: &Context, config: &str, how: &str) -> Self {
        let mut row = Self::blank(context, DType::F32, Mask::None);
        (row.config, row.engine) = (config.into(), how.into());
        (row.status, row.storage) = (Status::Limit, "dense".into());
        row
    }

    /// A row of nothing, whose fields name the columns.
    pub(super) fn default_of_schema() -> Self {
        let context = Context { device: String::new(), driver: String::new(), cache: "cold" };
        Self::blank(&context, DType::F32, Mask::None)
    }

    fn blank(context: &Context, dtype: DType, mask: Mask) -> Self {
        Self {
            date: super::date::now(),
            device: context.device.clone(),
            driver: context.driver.clone(),
            versions: format!("frazil {}", env!("CARGO_PKG_VERSION")),
            config: String::new(),
            model: String::new(),
            engine: String::new(),
            plan: String::new(),
            dtype,
            mask,
            sink: false,
            storage: String::new(),
            lengths: String::new(),
            batch: 0,
            q_seqlen: 0,
            kv_seqlen: 0,
            total_q: 0,
            total_kv: 0,
            num_q_heads: 0,
            num_kv_heads: 0,
            head_dim_qk: 0,
            head_dim_v: 0,
            cache: context.cache.into(),
            status: Status::Skipped,
            samples: None,
            time_us: None,
            time_us_low: None,
            time_us_high: None,
            tflops: None,
            gbs: None,
            limit: String::new(),
            limit_tflops: None,
            limit_gbs: None,
            limit_share: None,
            speedup: None,
            speedup_low: None,
            speedup_high: None,
            best_peer: String::new(),
            best_peer_speedup: None,
            max_diff: None,
            tol_share: None,
            rows_compared: None,
            note: String::new(),
        }
    }

    /// With an answer other than a time.
    pub(super) fn without_time(mut self, status: Status, note: impl Into<String>) -> Self {
        (self.status, self.note) = (status, note.into());
        self
    }

    /// The problem, whoever solves it: what two rows must have in common to be compared.
    pub(super) fn problem(&self) -> String {
        let Self { dtype, mask, sink, storage, lengths, batch, q_seqlen, kv_seqlen, .. } = self;
        let Self { total_q, total_kv, num_q_heads, num_kv_heads, .. } = self;
        let Self { head_dim_qk, head_dim_v, .. } = self;
        format!(
            "{dtype} {mask} {sink} {storage} {lengths} {batch} {q_seqlen} {kv_seqlen} {total_q} \
             {total_kv} {num_q_heads} {num_kv_heads} {head_dim_qk} {head_dim_v}"
        )
    }

    /// Who solves which problem where: of two such rows the later one counts.
    pub(super) fn identity(&self) -> String {
        let Self { device, engine, cache, .. } = self;
        format!("{device}\n{engine}\n{cache}\n{}", self.problem())
    }

    /// What is no number above 0 and must be one, with its column: a table from elsewhere may hold
    /// any text that reads as a number, and a peer of no time would be ahead of everyone.
    pub(super) fn misfit(&self) -> Option<(&'static str, f64)> {
        let numbers = [
            ("time_us", self.time_us),
            ("time_us_low", self.time_us_low),
            ("time_us_high", self.time_us_high),
            ("tflops", self.tflops),
            ("gbs", self.gbs),
            ("limit_tflops", self.limit_tflops),
            ("limit_gbs", self.limit_gbs),
            ("limit_share", self.limit_share),
            ("speedup", self.speedup),
            ("speedup_low", self.speedup_low),
            ("speedup_high", self.speedup_high),
            ("best_peer_speedup", self.best_peer_speedup),
        ];
        let is_misfit = |number: &f64| !(number.is_finite() && *number > 0.0);
        numbers.into_iter().find_map(|(name, number)| Some((name, number.filter(is_misfit)?)))
    }

    /// Whether it is a row of frazil's, not of a peer.
    pub(super) fn is_ours(&self) -> bool {
        self.versions.starts_with("frazil ")
    }

    /// Whether every sequence has one query row.
    pub(super) fn is_decode(&self) -> bool {
        self.lengths.is_empty() && self.q_seqlen == 1
    }

    /// Rate and its unit; `None` without a time.
    pub(super) fn rate(&self) -> Option<(f64, &'static str)> {
        let tflops = self.tflops.map(|rate| (rate, "TFLOP/s"));
        tflops.or(self.gbs.map(|rate| (rate, "GB/s")))
    }

    /// Takes a median time, in seconds, with what follows from it.
    pub(super) fn set_time(&mut self, seconds: f64, work: &Work) {
        self.time_us = Some(six_digits(seconds * 1e6));
        if self.is_decode() {
            self.gbs = Some(six_digits(work.kv_bytes / seconds / 1e9));
        } else {
            self.tflops = Some(six_digits(work.flops / seconds / 1e12));
        }
    }
}

/// Six significant digits: more is noise, and makes files hard to read.
pub(super) fn six_digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    format!("{value:.5e}").parse().unwrap_or(value)
}
