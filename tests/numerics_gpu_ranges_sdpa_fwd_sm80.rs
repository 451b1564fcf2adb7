//! Ranges of generated cases through the engine for compute capability 8.0 and later, on a real GPU: a
//! table has a line for each range that is done, and the next run goes on behind the last.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/here.rs"]
mod here;
#[path = "common/sdpa_fwd.rs"]
mod sdpa_fwd;

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use frazil::{Device, DeviceProps};
use frazil_conformance::case::Case;
use frazil_conformance::generator::Aim;
use frazil_conformance::run::{Entry, Totals, Verdict};
use frazil_conformance::skip;
use frazil_cuda::{Artifacts, DiskCache};
use here::or_skip;
use sdpa_fwd::{assert_none_is_bad, sm80_router, verdicts};

/// Cases of a range, and of all ranges.
const RANGE: u64 = 1000;
const LAST: u64 = 24_000;

const HEADER: &str = "first_seed,end_seed,right,declined,invalid,wrong,error,mean_gflop,seconds,device,driver,date\n";

/// The first seed behind the ranges of a table.
fn first_left(table: &str) -> u64 {
    let ends = table.lines().skip(1).filter_map(|line| line.split(',').nth(1)?.parse().ok());
    ends.max().unwrap_or(0)
}

/// Year, month and day of a number of days since 1970-01-01 (Hinnant, "chrono-Compatible Low-Level
/// Date Algorithms").
fn date(days: u64) -> String {
    let since_march = days + 719_468;
    let (era, of_era) = (since_march / 146_097, since_march % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year)
}

#[test]
fn a_table_is_gone_on_with() {
    assert_eq!(first_left(HEADER), 0);
    let table = format!("{HEADER}0,1000,1,2,3,0,0,0.1,9,a GPU,580,2026-12-01\n1000,2000,1\n");
    assert_eq!(first_left(&table), 2000);
    let dates = [0, 59, 11_016, 20_787].map(date);
    assert_eq!(dates, ["1970-01-01", "1970-03-01", "2000-02-29", "2026-11-30"]);
}

/// One line of the table.
fn line(
    first: u64,
    verdicts: &[Verdict],
    cases: &[Case],
    begin: Instant,
    device: &Device,
) -> String {
    let Totals { right, wrong, declined, invalid, error, .. } = verdicts.iter().collect();
    let flops: u64 = cases.iter().map(Case::live_flops).sum();
    #[expect(clippy::cast_precision_loss, reason = "to four digits")]
    let mean = flops as f64 / cases.len() as f64 / 1e9;
    let DeviceProps::Cuda(gpu) = &device.target().device else { unreachable!("it is a GPU") };
    let driver = device.target().toolchain.driver.map_or_else(String::new, |v| v.to_string());
    let days = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 86_400;
    let mut line =
        format!("{first},{},{right},{declined},{invalid},{wrong},{error}", first + RANGE);
    let seconds = begin.elapsed().as_secs_f64();
    write!(line, ",{mean:.4},{seconds:.1},{},{driver},{}", gpu.name, date(days)).unwrap();
    line.push('\n');
    line
}

#[test]
#[ignore = "minutes on a GPU: goes on where the table ends whose path is in FRAZIL_RANGES"]
fn ranges_of_generated_cases_are_right() {
    let Some(path) = std::env::var_os("FRAZIL_RANGES").map(PathBuf::from) else {
        return skip::because("no FRAZIL_RANGES: the path of a table");
    };
    let (nvrtc, device) = (or_skip!(here::nvrtc()), or_skip!(here::gpu()));
    let folder = std::env::temp_dir().join("frazil-ranges");
    let artifacts = Arc::new(Artifacts::new(nvrtc, Some(DiskCache::at(folder))));
    let router = sm80_router(&artifacts);
    let num_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    let mut table = OpenOptions::new().create(true).append(true).open(&path).unwrap();
    if known.is_empty() {
        table.write_all(HEADER.as_bytes()).unwrap();
    }
    let mut first = first_left(&known);
    while first < LAST {
        let begin = Instant::now();
        let seeds = first..first + RANGE;
        let cases: Vec<Case> = seeds.map(|seed| Aim::MatrixUnits.case_from_seed(seed)).collect();
        let entries: Vec<Entry> = cases.iter().cloned().map(Entry::from).collect();
        let verdicts = verdicts(&device, &router, &entries, num_threads);
        let line = line(first, &verdicts, &cases, begin, &device);
        eprint!("{line}");
        table.write_all(line.as_bytes()).unwrap();
        assert_none_is_bad(&verdicts);
        first += RANGE;
    }
}
