//! `frazil bench` as a process: rows, files, interrupts, bad input.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Said, command, frazil};
use frazil_conformance::cargo_path;

/// Few rounds of small cells.
const SHORT: [&str; 4] = ["--rounds", "2", "--cache", "warm"];

/// A path of this test program's own, where nothing is.
fn fresh(name: &str) -> PathBuf {
    let folder = cargo_path!("CARGO_TARGET_TMPDIR").join("frazil-cli-bench");
    fs::create_dir_all(&folder).expect("a folder for files");
    let path = folder.join(name);
    let _ = fs::remove_file(&path);
    let _ = fs::remove_dir_all(&path);
    path
}

fn bench(args: &[&str]) -> Said {
    frazil([&["bench"], args].concat())
}

/// Rows of a CSV file by column; every row must be whole.
fn rows(path: &Path) -> Vec<std::collections::HashMap<String, String>> {
    let mut reader = csv::Reader::from_path(path).expect("a table");
    reader.deserialize().map(|row| row.expect("a whole row")).collect()
}

fn configs(path: &Path, status: &str) -> Vec<String> {
    let rows = rows(path).into_iter().filter(|row| row["status"] == status);
    rows.map(|row| row["config"].clone()).collect()
}

#[test]
fn presets_are_listed_and_so_are_their_cells() {
    let said = bench(&["--list"]);
    for name in ["quick", "llama3.1", "gpt-oss", "deepseek-v3", "qwen", "wan", "minilm", "h200"] {
        assert!(said.assert_code(0).stdout.contains(name), "{said:?}");
    }
    let said = bench(&["h200/decode", "--list"]);
    assert_eq!(said.assert_code(0).stdout.lines().count(), 5);
    assert!(said.stdout.contains("h200/decode/d128_h32x8_b64_q1_s8192_full"));
    // The preset that is timed where none is named has a list as well.
    let said = bench(&["quick", "--list"]);
    assert_eq!(said.assert_code(0).stdout.lines().count(), 15);
    assert!(said.stdout.lines().all(|cell| cell.starts_with("quick/")), "{said:?}");
    let json = bench(&["--list", "--json"]).assert_code(0).json();
    assert!(json.iter().all(|preset| preset["source"].as_str().is_some_and(|it| !it.is_empty())));
}

#[test]
fn a_row_says_what_was_measured_and_that_it_is_right() {
    let said = bench(&[&["quick/packed", "--json"], &SHORT[..]].concat());
    let json = said.assert_code(0).json();
    let (limits, rows): (Vec<_>, Vec<_>) = json.iter().partition(|row| row["status"] == "limit");
    // Before and after.
    assert_eq!(limits.len(), 4, "{said:?}");
    let [row] = rows[..] else { panic!("{said:?}") };
    assert_eq!(row["status"], "measured");
    assert_eq!(row["engine"], "sdpa_fwd_cpu");
    assert_eq!((&row["batch"], &row["total_kv"]), (&64.into(), &1531.into()));
    let number = |name: &str| row[name].as_f64().expect(name);
    // Work over time is the rate: pairs of all sentences times 4 x 32 columns of 12 heads.
    let flops = number("tflops") * 1e12 * number("time_us") / 1e6;
    let squares = flops / (4.0 * 32.0 * 12.0);
    assert!((squares - squares.round()).abs() < 1e-3 * squares && squares > 1531.0, "{squares}");
    assert!(number("limit_share") > 0.0 && number("limit_share") < 1.5, "{row}");
    assert_eq!(number("rows_compared"), 1531.0 * 12.0);
    assert!(number("max_diff") > 0.0 && number("tol_share") <= 1.0, "{row}");
}

#[test]
fn a_cell_that_must_take_too_long_is_a_row_and_not_an_hour() {
    let start = Instant::now();
    let args = ["llama3.1", "--filter", "s32768", "--time-budget", "0.5", "--json"];
    let said = bench(&args);
    let json = said.assert_code(3).json();
    let row = json.iter().find(|row| row["status"] == "skipped").expect("a row");
    assert!(row["note"].as_str().unwrap().contains("time budget"), "{row}");
    assert!(row["time_us"].is_null());
    assert!(start.elapsed() < Duration::from_secs(120));
}

#[test]
fn a_killed_run_leaves_a_table_that_is_gone_on_with() {
    let path = fresh("killed.csv");
    let csv = path.to_str().unwrap();
    let args = ["bench", "minilm", "--rounds", "3", "--csv", csv, "--cache", "warm"];
    let mut child = command(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let start = Instant::now();
    let lines = || fs::read_to_string(&path).unwrap_or_default().lines().count();
    // A head, two limits and a row.
    while lines() < 4 && child.try_wait().expect("a child").is_none() {
        assert!(start.elapsed() < Duration::from_secs(120), "no row came");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().expect("a child");
    child.wait().expect("a child");
    let before = configs(&path, "measured");
    assert!(!before.is_empty());
    // What a machine that goes down may leave of a row.
    let mut text = fs::read(&path).expect("a file");
    text.extend(b"2026-11-29T00:00:00Z,\"AMD");
    fs::write(&path, text).expect("a file");

    let again = [&["bench", "minilm", "--rounds", "3", "--csv", csv, "--resume"], &SHORT[2..]];
    let said = frazil(again.concat());
    said.assert_code(0);
    assert!(said.stderr.contains("the last line is torn"), "{said:?}");
    let after = configs(&path, "measured");
    assert_eq!(after.len(), 6, "{after:?}");
    assert_eq!(after.iter().collect::<BTreeSet<_>>().len(), 6, "none is there twice: {after:?}");
    assert_eq!(after[..before.len()], before[..]);

    // Nothing is left, so nothing is measured, not even the limits.
    let bytes = fs::read(&path).expect("a file");
    let said = frazil(again.concat());
    assert!(said.assert_code(0).stderr.contains("6 of 6 cells are there already"), "{said:?}");
    assert_eq!(fs::read(&path).expect("a file"), bytes);
}

#[test]
fn a_closed_pipe_leaves_a_table() {
    let path = fresh("pipe.csv");
    let args = ["bench", "minilm", "--rounds", "2", "--csv", path.to_str().unwrap()];
    let mut child =
        command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(141), ""));
    // The row that could not be shown is stored.
    assert!(!rows(&path).is_empty());
}

#[test]
fn peers_are_compared_with_and_drawn() {
    let (csv, peers, plots) = (fresh("ours.csv"), fresh("peers.csv"), fresh("plots"));
    let cells = ["minilm/single", "--dtype", "f16", "--csv", csv.to_str().unwrap()];
    bench(&[&cells, &SHORT[..]].concat()).assert_code(0);
    // A peer that is twice as fast at all but one cell, and one row of a device that is not here.
    let header = fs::read_to_string(&csv).unwrap().lines().next().unwrap().to_owned();
    let mut text = header.clone() + "\n";
    for (at, row) in rows(&csv).iter().filter(|row| row["status"] == "measured").enumerate() {
        let time: f64 = row["time_us"].parse().unwrap();
        let field = |name: &str| match name {
            "versions" => "peer 1.0".to_owned(),
            "engine" => "peer".to_owned(),
            "time_us" => (time / 2.0).to_string(),
            "device" if at == 0 => "elsewhere".to_owned(),
            name => format!("\"{}\"", row[name]),
        };
        text += &(header.split(',').map(field).collect::<Vec<_>>().join(",") + "\n");
    }
    fs::write(&peers, text).unwrap();
    let args = ["minilm/single", "--dtype", "f16", "--json"];
    let with = ["--peers", peers.to_str().unwrap(), "--plot", plots.to_str().unwrap()];
    let said = bench(&[&args[..], &with, &SHORT[..]].concat());
    let json = said.assert_code(0).json();
    let measured: Vec<_> = json.iter().filter(|row| row["status"] == "measured").collect();
    let met: Vec<_> = measured.iter().map(|row| row["best_peer"] == "peer").collect();
    assert_eq!(met, [false, true, true], "{said:?}");
    for row in &measured[1..] {
        assert!(row["best_peer_speedup"].as_f64().is_some_and(|speedup| speedup > 0.0), "{row}");
    }
    assert!(said.stderr.contains("of 3 rows of peers these met no row"), "{said:?}");
    assert!(said.stderr.contains("1 on elsewhere"), "{said:?}");

    // The same from files.
    let again = fresh("again");
    let (from, to) = (csv.to_str().unwrap(), again.to_str().unwrap());
    bench(&["plot", from, "--peers", peers.to_str().unwrap(), "--to", to]).assert_code(0);
    for folder in [&plots, &again] {
        let files: Vec<PathBuf> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        let texts: Vec<String> =
            files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
        // One for each device.
        assert_eq!(files.len(), 2, "{files:?}");
        assert!(texts.iter().all(|text| text.starts_with("<svg")));
        assert!(texts.iter().any(|text| text.contains("best peer")), "{files:?}");
    }
}

#[test]
fn bad_input_is_code_2_and_a_helpful_line() {
    let (bad, short) = (fresh("bad.csv"), fresh("short.csv"));
    fs::write(&bad, "name,time\n1,2\n").unwrap();
    let good = fresh("good.csv");
    bench(
        &[&["minilm/single", "--filter", "s16", "--csv", good.to_str().unwrap()], &SHORT[..]]
            .concat(),
    )
    .assert_code(0);
    fs::write(&short, fs::read_to_string(&good).unwrap() + "1,2,3\n").unwrap();
    let (mine, none) = (fresh("mine.txt"), fresh("none.csv"));
    fs::write(&mine, "no table").unwrap();
    fs::write(&none, "").unwrap();
    let (bad, short, good) =
        (bad.to_str().unwrap(), short.to_str().unwrap(), good.to_str().unwrap());
    let (mine, none) = (mine.to_str().unwrap(), none.to_str().unwrap());
    let cases: [(&[&str], &str); 15] = [
        (&["llama4"], "llama3.1"),
        (&["h200/sparse"], "deadspace"),
        (&["--filter", "nothing"], "no name of 15 cells"),
        (&["--engine", "nobody"], "sdpa_fwd_cpu"),
        (&["--time-budget", "-1"], "seconds from 0"),
        (&["--rounds", "0"], "--rounds"),
        (&["--resume"], "--csv"),
        (&["--csv", bad], "line 1: column `name` is none of the schema"),
        (&["--csv", "no/such/folder/x.csv"], "cannot be written"),
        (&["--peers", short], "line 7: 3 fields"),
        (&["--csv", mine], "column `no table` is none of the schema"),
        (&["--peers", none], "is empty"),
        (&["--time-budget", "NaN"], "seconds from 0"),
        (&["--plot", good], "good.csv: is a file"),
        (&["plot", "nobody.csv"], "nobody.csv"),
    ];
    for (args, want) in cases {
        let said = bench(args);
        assert!(said.assert_code(2).stderr.contains(want), "{args:?}: {said:?}");
        assert_eq!(said.stdout, "", "{args:?}");
    }
    assert_eq!(fs::read_to_string(mine).unwrap(), "no table");
}

#[test]
fn rows_without_a_time_are_no_drawing() {
    let (csv, plots) = (fresh("skipped.csv"), fresh("no-plots"));
    let (csv, plots) = (csv.to_str().unwrap(), plots.to_str().unwrap());
    bench(&["minilm/single", "--time-budget", "0", "--csv", csv]).assert_code(3);
    let said = bench(&["plot", csv, "--to", plots]);
    assert!(said.assert_code(3).stderr.contains("no row has a time"), "{said:?}");
    assert_eq!(said.stdout, "");
}
