//! The arguments of every command.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// GPU attention for Rust: run it on files, check engines, ask who serves what.
#[derive(Debug, Parser)]
#[command(
    name = "frazil",
    version,
    after_help = "\
Results go to standard output, everything else to standard error. Colours are for terminals, and
for none where NO_COLOR is set.

Exit codes:
  0    right: everything asked for was done
  1    a wrong answer, a fault, or an output that cannot be written
  2    arguments, files or cases that mean nothing
  3    no engine serves it
  141  who read the output closed it

Examples:
  frazil run data/minilm/layer0.safetensors
  frazil doctor
  frazil help check"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Run),
    Check(Check),
    Repro(Repro),
    Explain(Explain),
    Engines(Engines),
    Doctor(Doctor),
    Completions(Completions),
    Bench(crate::bench::Bench),
    Warm(Warm),
    /// What `doctor` starts: opens the driver and NVRTC, and says a line of JSON of each.
    #[command(hide = true)]
    OpenLibraries,
}

/// Run attention on the tensors of safetensors files
///
/// A file holds q, k and v (f16, bf16 or f32), either [tokens, heads, columns] with i32 tensors
/// q_prefix and kv_prefix (running sums) or q_lengths and kv_lengths, or [batch, heads, rows,
/// columns], where lengths may stand beside. Optional: expected_o, expected_lse, and softmax_scale
/// in the metadata. The answer is held against a reference in f64 computed from the same tensors,
/// and against the expected tensors where there are any. Those were made with plain scores and the
/// scale of the file, so they are not compared where arguments ask for others.
///
/// What NaN or infinity in the input reaches is not compared. Where that is every element of o or
/// of lse, the file is "not compared", which is exit code 1: an answer that nothing could be said
/// of is not right.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Exit codes: 0 right, or with --no-compare done; 1 wrong or not compared, or a fault; 2 arguments or
files that mean nothing; 3 declined.

Examples:
  frazil run data/minilm/layer0.safetensors
  frazil run --dtype bf16 --causal --json prompt.safetensors
  frazil run --output answer.safetensors question.safetensors"
)]
pub(crate) struct Run {
    /// Files to run; all of them are read and checked before the first runs.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Ask this engine alone, by name (sdpa_fwd_cpu) or short name (cpu).
    #[arg(long, value_name = "NAME")]
    pub(crate) engine: Option<String>,
    /// Convert q, k and v to this type first; expected tensors judge only where that loses nothing.
    #[arg(long, value_name = "TYPE")]
    pub(crate) dtype: Option<FloatType>,
    /// Write o and lse to this safetensors file; takes one input file.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) scores: Scores,
    /// Times the work is repeated; the best time counts.
    #[arg(long, value_name = "N", default_value = "5")]
    pub(crate) repeat: NonZeroU32,
    /// Compare with nothing: for inputs on which the f64 reference would take too long.
    #[arg(long)]
    pub(crate) no_compare: bool,
    /// One JSON object a file.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is done to the scores.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Scores {
    /// Hide the keys after the diagonal.
    #[arg(long)]
    pub(crate) causal: bool,
    /// Show W keys up to the diagonal, as sliding_window in model configs; or LEFT,RIGHT: that many
    /// before and after the diagonal, -1 for all, as window_size of flash-attn
    #[arg(long, verbatim_doc_comment, value_name = "W|LEFT,RIGHT", value_parser = parse_window, allow_hyphen_values = true)]
    pub(crate) window: Option<Window>,
    /// Which corner the diagonal of --causal and --window is drawn from, per sequence [default:
    /// bottom-right]
    #[arg(long, verbatim_doc_comment, value_name = "CORNER")]
    pub(crate) align: Option<Corner>,
    /// Replace a score s by CAP * tanh(s / CAP).
    #[arg(long, value_name = "CAP", allow_negative_numbers = true)]
    pub(crate) soft_cap: Option<f32>,
    /// Factor of q . k [default: softmax_scale of the file, else 1/sqrt(columns of q)]
    #[arg(long, value_name = "SCALE", allow_negative_numbers = true)]
    pub(crate) scale: Option<f32>,
}

/// Keys around the diagonal; `None` is all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) left: Option<u32>,
    pub(crate) right: Option<u32>,
}

/// What a window looks like, for messages.
const FORMS: &str = "needed: W, from 1, or LEFT,RIGHT, where -1 is all";

/// `W`, or `LEFT,RIGHT` with -1 for an open side.
fn parse_window(text: &str) -> Result<Window, String> {
    let side = |text: &str| match text.trim() {
        "-1" => Ok(None),
        number => number.parse().map(Some).map_err(|error| format!("`{number}`: {error}; {FORMS}")),
    };
    let Some((left, right)) = text.split_once(',') else {
        let window: NonZeroU32 = text.parse().map_err(|error| format!("{error}; {FORMS}"))?;
        return Ok(Window { left: Some(window.get() - 1), right: Some(0) });
    };
    Ok(Window { left: side(left)?, right: side(right)? })
}

/// Corner of the score matrix.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Corner {
    /// The first query meets the first key.
    TopLeft,
    /// The last query meets the last key.
    BottomRight,
}

/// Types of q, k and v.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FloatType {
    F16,
    Bf16,
    F32,
}

/// Check engines against the reference on cases
///
/// Takes case files (TOML) and the JSON lines of cudnn-frontend's test configurations. Every case
/// runs on every engine that serves it. Where a file states what engines answer, another answer is
/// an error. With --json, one object a line: id, engine, status (right, wrong, declined, invalid,
/// error, skipped), max_err, tol, reason; then one object with totals.
///
/// A case that is not right is printed with the line that runs it again.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Exit codes, the first that applies: 1 a wrong answer, an answer other than the file states, or a
fault of an engine; 2 a case that means nothing; 3 nothing right, and declines that no file states;
0 otherwise.

Examples:
  frazil check --filter paged --max-gflop 0.5 tests/cases/sdpa_fwd_decode.toml
  frazil check --json --jobs 8 tests/cases/peer_sdpa.jsonl > verdicts.jsonl"
)]
pub(crate) struct Check {
    /// Files of cases; or one case as JSON; or - for standard input.
    #[arg(required = true, value_name = "FILE|JSON")]
    pub(crate) sources: Vec<PathBuf>,
    /// Ask this engine alone, by name (sdpa_fwd_cpu) or short name (cpu).
    #[arg(long, value_name = "NAME")]
    pub(crate) engine: Option<String>,
    /// Where to run.
    #[arg(long, value_name = "DEVICE", default_value = "host")]
    pub(crate) device: DeviceName,
    /// Run only cases whose id contains this text.
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Cases at a time.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) jobs: std::num::NonZeroUsize,
    /// Skip cases of more work than this.
    #[arg(long, value_name = "X")]
    pub(crate) max_gflop: Option<f64>,
    /// One JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Devices that this program can open.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum DeviceName {
    /// This computer's processor.
    Host,
}

/// Run one case again: the line that a failing case prints
///
/// `frazil check`, the test suite and its long run print such a line for every case that is wrong,
/// broken or means nothing. It holds the case whole, with the seed of its values and the answer
/// that was expected, and so fails alike on any machine. A case too long for an argument is printed
/// with a pipe.
///
/// With --json, one object an engine, as `frazil check --json` writes them.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = r#"Exit codes: 0 right, or the decline that the case states; 1 a wrong answer, an answer other than the
case states, or a fault of an engine; 2 a case that means nothing; 3 declined.

Examples:
  frazil repro '{"name": "mine", "dtype": "bf16", "batch": 1, "num_q_heads": 8,
                 "num_kv_heads": 1, "head_dim_qk": 128, "seqlen_q": 1, "seqlen_kv": 4096}'
  frazil repro --engine cpu - < case.json"#
)]
pub(crate) struct Repro {
    /// The case as JSON; or a file of one case; or - for standard input.
    #[arg(value_name = "JSON|FILE|-")]
    pub(crate) source: PathBuf,
    /// Ask this engine alone, by name (sdpa_fwd_cpu) or short name (cpu).
    #[arg(long, value_name = "NAME")]
    pub(crate) engine: Option<String>,
    /// Where to run.
    #[arg(long, value_name = "DEVICE", default_value = "host")]
    pub(crate) device: DeviceName,
    /// One JSON object an engine.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Say what every engine answers to a case, and why.
#[derive(Debug, Args)]
#[command(
    after_help = r#"Exit codes: 0 an engine serves every case; 2 a case that means nothing; 3 a case that none serves.

Examples:
  frazil explain --case gqa_8_2 --target sm90 tests/cases/sdpa_fwd.toml
  frazil explain '{"name": "mine", "dtype": "bf16", "batch": 1, "num_q_heads": 8,
                   "num_kv_heads": 1, "head_dim_qk": 128, "seqlen_q": 1, "seqlen_kv": 4096}'"#
)]
pub(crate) struct Explain {
    /// A file of cases; or one case as JSON; or - for standard input.
    #[arg(value_name = "FILE|JSON")]
    pub(crate) source: PathBuf,
    /// The case of the file; absent: all of them.
    #[arg(long, value_name = "NAME")]
    pub(crate) case: Option<String>,
    /// Device to plan for: this (the processor of this computer), or a stand-in that
    /// need not be here: host, sm80, sm86, sm89, sm90, sm100, sm103, sm120 or
    /// sm121
    #[arg(long, verbatim_doc_comment, value_name = "TARGET", default_value = "this")]
    pub(crate) target: String,
    /// One JSON object a case.
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the engines of this program
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Exit code: 0.\n\nExamples:\n  frazil engines --json\n  frazil engines --table full"
)]
pub(crate) struct Engines {
    /// One JSON object an engine.
    #[arg(long)]
    pub(crate) json: bool,
    /// Ask every engine who serves what, on a stand-in for every device, and print the answers as a
    /// table in Markdown
    #[arg(long, verbatim_doc_comment, value_name = "FORM", conflicts_with = "json")]
    pub(crate) table: Option<TableForm>,
}

/// How much of the support table is shown.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum TableForm {
    /// What each engine serves where it serves most.
    Summary,
    /// Every answer on every device, with the reason of each decline.
    Full,
}

/// Say what is here to run on, and what is amiss
///
/// Tries every engine on a small case. Looks for NVIDIA's driver, for NVRTC and for cuDNN: in /proc
/// and /dev, in the loader's cache and folders, on LD_LIBRARY_PATH, in CUDA toolkits and in the
/// active environments of Python and conda. Libraries are found by their names and their versions
/// read from those names or from their packages, so one that is listed may still fail to load. The
/// driver and the NVRTC that kernels would be compiled with are opened, in a process of their own,
/// so that one which ends its process is told too. Each finding says what was seen and what to do.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Exit codes: 0 an engine runs here; 1 an engine gave a wrong answer; 3 no engine runs here. Findings
change no code: the CPU engine needs nothing of what they are about.

Examples:
  frazil doctor
  frazil doctor --json"
)]
pub(crate) struct Doctor {
    /// One JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Compile kernels ahead, for a GPU that need not be here
///
/// Fills the cache of compiled kernels, so that programs find them there: when an image is built, or
/// before a service starts. Without files it makes the kernels that all engines for GPUs share; with
/// files of cases also those of the best plan of every case. Needs NVRTC and no GPU.
///
/// Prints a line a kernel: its symbol, what it is compiled for, where it came from (compiled, disk,
/// memory), how long that took, registers, and bytes spilled where there are any. With --json, one
/// object a line, then one with totals.
///
/// The cache lies in the folder that FRAZIL_CACHE names, else in frazil under XDG_CACHE_HOME, else
/// in ~/.cache/frazil. FRAZIL_NVRTC names NVRTC, where it is not found; `frazil doctor` says where
/// it is looked for.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Exit codes: 0 everything is in the cache; 1 a kernel that does not compile or cannot be kept; 2
arguments or cases that mean nothing; 3 no NVRTC, or one that cannot compile for the GPU, or a case
that no engine serves there.

Examples:
  frazil warm --target sm90
  frazil warm --list --target sm120
  FRAZIL_CACHE=/image/cache frazil warm --json --target sm80 cases.toml"
)]
pub(crate) struct Warm {
    /// Files of cases; or one case as JSON; or - for standard input.
    #[arg(value_name = "FILE|JSON")]
    pub(crate) sources: Vec<PathBuf>,
    /// GPU to compile for: this (the first of this computer), or a stand-in that need not be here:
    /// sm80, sm86, sm89, sm90, sm100, sm103, sm120 or sm121
    #[arg(long, verbatim_doc_comment, value_name = "TARGET", default_value = "this")]
    pub(crate) target: String,
    /// Every plan of every case, not the best alone.
    #[arg(long)]
    pub(crate) all: bool,
    /// Name the kernels and make none; needs no NVRTC.
    #[arg(long)]
    pub(crate) list: bool,
    /// One JSON object a kernel, then one with totals.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print a script that completes commands and arguments in a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 printed; 2 no such shell.

Examples:
  frazil completions bash > ~/.local/share/bash-completion/completions/frazil
  frazil completions zsh > ~/.zfunc/_frazil
  frazil completions fish > ~/.config/fish/completions/frazil.fish")]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

impl Command {
    /// Whether machines read what it prints.
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::Run(args) => args.json,
            Self::Check(args) => args.json,
            Self::Repro(args) => args.json,
            Self::Explain(args) => args.json,
            Self::Engines(args) => args.json,
            Self::Doctor(args) => args.json,
            Self::Bench(args) => args.json(),
            Self::Warm(args) => args.json,
            Self::OpenLibraries => true,
            Self::Completions(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_well_formed() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn a_window_is_one_number_or_two() {
        let window = |left, right| Ok(Window { left, right });
        assert_eq!(parse_window("1"), window(Some(0), Some(0)));
        assert_eq!(parse_window("128"), window(Some(127), Some(0)));
        assert_eq!(parse_window("5,-1"), window(Some(5), None));
        assert_eq!(parse_window("-1,0"), window(None, Some(0)));
        for bad in ["0", "-1", "", "1,", "1,2,3", "-2,0", "4294967296"] {
            assert!(parse_window(bad).is_err(), "{bad}");
        }
    }
}
