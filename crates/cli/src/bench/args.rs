//! The arguments of `frazil bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::device::Cache;
use crate::args::FloatType;

/// Time engines on the shapes of models, against the device's limits and the reference
///
/// Every cell goes through every engine that serves it, in rounds of random order. A row says the
/// median time and a 95% interval, the rate of the exactly counted work (TFLOP/s of visible pairs;
/// for one query row GB/s of K and V), the share of the rate that the device reaches in a matrix
/// product or in reading memory, measured in the same process, and the greatest difference from an
/// f64 reference, on other inputs than were timed. An engine that declines says why in its row, and
/// so does a cell that is too large.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    args_conflicts_with_subcommands = true,
    after_help = "\
Exit codes: 0 right; 1 a wrong answer or a fault; 2 arguments or files that mean nothing; 3 nothing
was timed.

Examples:
  frazil bench
  frazil bench --list
  frazil bench llama3.1 gpt-oss/decode --time-budget 20 --csv mine.csv --resume
  frazil bench h200/dense --csv mine.csv --peers peers.csv --plot plots
  frazil bench plot mine.csv --peers peers.csv --to plots"
)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    /// What to time: PRESET or PRESET/GROUP, as --list names them [default: quick]
    #[arg(value_name = "PRESET")]
    presets: Vec<String>,
    /// List the presets, or the cells of those named, and time nothing.
    #[arg(long)]
    pub(super) list: bool,
    /// Only cells whose name contains this text.
    #[arg(long, value_name = "TEXT")]
    pub(super) filter: Option<String>,
    /// Time this engine alone, by name (sdpa_fwd_cpu) or short name (cpu).
    #[arg(long, value_name = "NAME")]
    pub(super) engine: Option<String>,
    /// Where to run.
    #[arg(long, value_name = "DEVICE", default_value = "host")]
    pub(super) device: Vec<crate::args::DeviceName>,
    /// Type of q, k, v and o, instead of the preset's.
    #[arg(long, value_name = "TYPE")]
    pub(super) dtype: Option<FloatType>,
    /// Most rounds of a cell; the first eighth is not counted.
    #[arg(long, value_name = "N", default_value = "40", value_parser = clap::value_parser!(u32).range(1..=900))]
    pub(super) rounds: u32,
    /// Seconds that a cell may be timed for; one whose first execute must take longer, by the limits
    /// of the device, is skipped
    #[arg(
        long,
        verbatim_doc_comment,
        value_name = "SECONDS",
        default_value = "3",
        value_parser = parse_seconds,
        allow_negative_numbers = true
    )]
    pub(super) time_budget: Duration,
    /// What the caches hold before an execute.
    #[arg(long, value_name = "STATE", default_value = "cold")]
    pub(super) cache: Cache,
    /// Seed of inputs, orders and samples.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(super) seed: u64,
    /// Compare with nothing: say that nothing is known of the answers.
    #[arg(long)]
    pub(super) no_compare: bool,
    /// Add every row to this CSV file, as soon as it is there.
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,
    /// Leave out what the file of --csv has already.
    #[arg(long, requires = "csv")]
    pub(super) resume: bool,
    /// Results of other software, as CSV of the same columns, to compare with; may be given again.
    #[arg(long, value_name = "FILE")]
    pub(super) peers: Vec<PathBuf>,
    /// Draw the rows as SVG files into this folder.
    #[arg(long, value_name = "FOLDER")]
    pub(super) plot: Option<PathBuf>,
    /// One JSON object a row.
    #[arg(long)]
    pub(super) json: bool,
}

/// What else can be done.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Plot(Plot),
}

/// Draw rows of CSV files as SVG files.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 drawn; 1 a drawing that cannot be written; 2 arguments or files that mean nothing; 3 no
row has a time.

Example:
  frazil bench plot mine.csv --peers peers.csv --to plots")]
pub(super) struct Plot {
    /// Files that `frazil bench --csv` wrote.
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Results of other software, as CSV of the same columns; may be given again.
    #[arg(long, value_name = "FILE")]
    pub(super) peers: Vec<PathBuf>,
    /// The folder for the drawings, made where it is not there.
    #[arg(long, value_name = "FOLDER", default_value = "plots")]
    pub(super) to: PathBuf,
}

impl Bench {
    /// Whether machines read the output.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// What to time.
    pub(super) fn presets(&self) -> Vec<String> {
        if self.presets.is_empty() { vec![DEFAULT_PRESET.to_owned()] } else { self.presets.clone() }
    }

    /// Whether some cells are asked for, and not just what there is.
    pub(super) fn names_cells(&self) -> bool {
        !self.presets.is_empty() || self.filter.is_some()
    }
}

/// The preset that is timed where none is named.
const DEFAULT_PRESET: &str = "quick";

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|number| Duration::try_from_secs_f64(number).ok());
    seconds.ok_or_else(|| "a number of seconds from 0 is needed".into())
}
