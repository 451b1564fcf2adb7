//! `frazil run` as a process.

mod common;

use common::{Tensor, command, f32s, file, frazil, i32s, minilm, packed, write};
use serde_json::{Value, json};

#[test]
fn the_shipped_layers_are_right() {
    let files = [0, 2, 5].map(minilm);
    let said = frazil(
        ["run".as_ref(), "--json".as_ref()].into_iter().chain(files.iter().map(|p| p.as_os_str())),
    );
    said.assert_code(0);
    let objects = said.json();
    assert_eq!(objects.len(), 3);
    for (object, path) in objects.iter().zip(&files) {
        assert_eq!(object["file"], json!(path));
        assert_eq!(object["status"], "right");
        assert_eq!(object["engine"], "sdpa_fwd_cpu");
        assert_eq!(object["sequences"], 9);
        assert_eq!(object["q_lengths"], json!([4, 70]));
        let comparisons = object["comparisons"].as_array().unwrap();
        let names: Vec<_> = comparisons.iter().map(|c| c["against"].as_str().unwrap()).collect();
        assert_eq!(names, ["reference", "expected_o", "reference", "expected_lse"]);
        for comparison in comparisons {
            assert_eq!(comparison["held"], true);
            assert_eq!(comparison["num_bad"], 0);
            assert!(comparison["max_err"].as_f64().unwrap() <= comparison["tol"].as_f64().unwrap());
        }
        assert!(object["gflop_per_s"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn people_read_the_same() {
    let said = frazil(["run".as_ref(), minilm(2).as_os_str()]);
    said.assert_code(0);
    for part in ["sdpa_fwd_cpu", "f16 [160, 12, 32]", "9, rows of q 4 to 70", "0 NaN", "GFLOP/s"] {
        assert!(said.stdout.contains(part), "{part}\n{}", said.stdout);
    }
    assert!(!said.stdout.contains('\x1b'), "colours are for terminals");
}

#[test]
fn an_altered_expectation_is_wrong() {
    let bytes = std::fs::read(minilm(0)).unwrap();
    let header = usize::try_from(u64::from_le_bytes(*bytes.first_chunk().unwrap())).unwrap();
    let claims: Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    for (name, element) in [("expected_o", 100_usize), ("expected_lse", 7)] {
        let begin = claims[name]["data_offsets"][0].as_u64().unwrap();
        let at = 8 + header + usize::try_from(begin).unwrap() + 4 * element;
        let mut altered = bytes.clone();
        let value = f32::from_le_bytes(*altered[at..].first_chunk().unwrap()) + 0.01;
        altered[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let path = write(&format!("altered_{name}.safetensors"), altered);
        let said = frazil(["run".as_ref(), "--json".as_ref(), path.as_os_str()]);
        said.assert_code(1);
        let object = &said.json()[0];
        assert_eq!(object["status"], "wrong");
        let bad: Vec<_> = object["comparisons"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|c| c["num_bad"] != 0)
            .collect();
        assert_eq!(bad.len(), 1);
        assert_eq!(bad[0]["against"], name);
        let first = if name == "expected_o" { json!([0, 3, 4]) } else { json!([0, 7]) };
        assert_eq!(bad[0]["first_bad"], first);
        let said = frazil(["run".as_ref(), path.as_os_str()]);
        assert!(said.assert_code(1).stdout.contains("WRONG"), "{}", said.stdout);
    }
}

#[test]
fn every_form_of_rows_runs() {
    let wave = |at: usize| (at as f32 * 0.37).cos();
    let dense = || {
        vec![
            f32s("q", &[2, 4, 5, 8], wave),
            f32s("k", &[2, 2, 6, 8], wave),
            f32s("v", &[2, 2, 6, 8], wave),
        ]
    };
    let mut padded = dense();
    padded.extend([i32s("q_lengths", &[5, 0]), i32s("kv_lengths", &[0, 6])]);
    let lengths = packed(|tensors| {
        tensors.truncate(3);
        tensors.extend([i32s("q_lengths", &[1, 2]), i32s("kv_lengths", &[1, 2])]);
    });
    let based = packed(|tensors| tensors[3] = i32s("q_prefix", &[1000, 1001, 1003]));
    let empty = [
        f32s("q", &[2, 2, 0, 8], wave),
        f32s("k", &[2, 2, 0, 8], wave),
        f32s("v", &[2, 2, 0, 8], wave),
    ];
    let files = [
        ("dense", file(&dense(), &[])),
        ("padded", file(&padded, &[])),
        ("lengths", lengths),
        ("prefix", packed(|_| {})),
        ("based", based),
        ("empty", file(&empty, &[])),
    ];
    for (name, bytes) in files {
        let path = write(&format!("form_{name}.safetensors"), bytes);
        for options in [
            &[][..],
            &["--causal"],
            &["--causal", "--align", "top-left"],
            &["--window", "2"],
            &["--window", "1,2", "--soft-cap", "3"],
            &["--scale", "-0.5"],
            &["--dtype", "bf16"],
            &["--dtype", "f16", "--scale", "0"],
        ] {
            let said =
                command(["run", "--json", "--repeat", "2"]).args(options).arg(&path).output();
            let said = common::Said::from(said.unwrap());
            said.assert_code(0);
            assert_eq!(said.json()[0]["status"], "right", "{name} {options:?}");
        }
    }
}

#[test]
fn expectations_of_rounded_inputs_do_not_judge() {
    let said = frazil([
        "run".as_ref(),
        "--json".as_ref(),
        "--dtype".as_ref(),
        "bf16".as_ref(),
        minilm(0).as_os_str(),
    ]);
    said.assert_code(0);
    let object = &said.json()[0];
    assert_eq!(object["tensors"][3]["dtype"], "bf16");
    let held = |at: usize| object["comparisons"][at]["held"].as_bool().unwrap();
    assert_eq!([0, 1, 2, 3].map(held), [true, false, true, false]);
    // f16 fits f32 without loss.
    let said = frazil([
        "run".as_ref(),
        "--json".as_ref(),
        "--dtype".as_ref(),
        "f32".as_ref(),
        minilm(0).as_os_str(),
    ]);
    let object = &said.assert_code(0).json()[0];
    assert_eq!(object["comparisons"][1]["held"], true);
}

#[test]
fn the_answer_is_written_and_is_an_expectation() {
    let input = write("question.safetensors", packed(|_| {}));
    let output = write("answer.safetensors", "");
    let said = command(["run", "--output"]).arg(&output).arg(&input).output().unwrap();
    common::Said::from(said).assert_code(0);
    let bytes = std::fs::read(&output).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let (o, lse) = (tensors.tensor("o").unwrap(), tensors.tensor("lse").unwrap());
    assert_eq!((o.shape(), lse.shape()), (&[3, 2, 4][..], &[3, 2][..]));
    let expecting = packed(|tensors| {
        tensors.push(Tensor("expected_o", "F32", vec![3, 2, 4], o.data().to_vec()));
        tensors.push(Tensor("expected_lse", "F32", vec![3, 2], lse.data().to_vec()));
    });
    let path = write("question_with_answer.safetensors", expecting);
    let object = frazil(["run".as_ref(), "--json".as_ref(), path.as_os_str()]);
    assert_eq!(object.assert_code(0).json()[0]["comparisons"].as_array().unwrap().len(), 4);
}

#[test]
fn outputs_are_refused_before_anything_is_written() {
    let input = write("kept.safetensors", packed(|_| {}));
    let before = std::fs::read(&input).unwrap();
    let said = command(["run", "--output"]).arg(&input).arg(&input).output().unwrap();
    let said = common::Said::from(said);
    assert!(said.assert_code(2).stderr.contains("is the input"), "{said:?}");
    assert_eq!(std::fs::read(&input).unwrap(), before);

    #[cfg(unix)]
    {
        let link = |name: &str| {
            let link = input.with_file_name(name);
            let _ = std::fs::remove_file(&link);
            link
        };
        let (hard, soft) = (link("kept_hard.safetensors"), link("kept_soft.safetensors"));
        std::fs::hard_link(&input, &hard).unwrap();
        std::os::unix::fs::symlink(&input, &soft).unwrap();
        for output in [hard, soft] {
            let said = command(["run", "--output"]).arg(&output).arg(&input).output().unwrap();
            let said = common::Said::from(said);
            assert!(said.assert_code(2).stderr.contains("is the input"), "{said:?}");
            assert_eq!(std::fs::read(&input).unwrap(), before);
        }
    }

    let output = write("unwritten.safetensors", "as it was");
    let two = command(["run", "--output"]).arg(&output).args([&input, &input]).output().unwrap();
    common::Said::from(two).assert_code(2);
    let bad = write("bad_second.safetensors", "no tensors");
    let bad = command(["run", "--output"]).arg(&output).arg(&bad).output().unwrap();
    common::Said::from(bad).assert_code(2);
    assert_eq!(std::fs::read(&output).unwrap(), b"as it was");
    let nowhere =
        command(["run", "--output", "no/such/folder/answer"]).arg(&input).output().unwrap();
    let nowhere = common::Said::from(nowhere);
    assert!(nowhere.assert_code(1).stderr.contains("no/such/folder/answer"), "{nowhere:?}");
}

#[test]
fn nan_in_the_input_is_told_from_a_wrong_answer() {
    // The first number of q, of k and of v in turn; the last row of q does not see the first key.
    let names = ["q", "k", "v"];
    for (at, name) in names.iter().enumerate() {
        let bytes = packed(|tensors| tensors[at].3[..4].copy_from_slice(&f32::NAN.to_le_bytes()));
        let path = write(&format!("nan_{name}.safetensors"), bytes);
        let said = frazil(["run".as_ref(), "--json".as_ref(), path.as_os_str()]);
        let object = &said.assert_code(0).json()[0];
        assert_eq!(object["status"], "right");
        let o = &object["comparisons"][0];
        let columns = if *name == "v" { 1 } else { 4 };
        assert_eq!(
            (&o["num_nan"], &o["num_excused"]),
            (&json!(columns), &json!(columns)),
            "{name}"
        );
    }
}

#[test]
fn the_first_bad_file_stops_all() {
    let good = minilm(0);
    let bad = write("bad_of_two.safetensors", "");
    let said = frazil(["run".as_ref(), good.as_os_str(), bad.as_os_str()]);
    said.assert_code(2);
    assert_eq!(said.stdout, "");
    assert!(said.stderr.contains("bad_of_two.safetensors"), "{}", said.stderr);
}

#[test]
fn an_expectation_may_be_rounded_to_any_type() {
    // Half a unit of bf16 above 1 and of f16 above 2^-13, which is where rounding loses most, and
    // what is subnormal in f16.
    for value in [1.0 + 2_f32.powi(-8), 2_f32.powi(-13) * (1.0 + 2_f32.powi(-11)), 2.9e-8, 0.3] {
        let question = || packed(|tensors| tensors[2] = f32s("v", &[3, 2, 4], |_| value));
        let (input, output) = (write("rounded_q.safetensors", question()), "rounded_a.safetensors");
        let output = write(output, "");
        let said = command(["run", "--output"]).arg(&output).arg(&input).output().unwrap();
        common::Said::from(said).assert_code(0);
        let bytes = std::fs::read(&output).unwrap();
        let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let o = tensors.tensor("o").unwrap();
        let words = || o.data().as_chunks().0.iter().map(|word| f32::from_le_bytes(*word));
        let bf16 = words().flat_map(|x| half::bf16::from_f32(x).to_le_bytes()).collect();
        let f16 = words().flat_map(|x| half::f16::from_f32(x).to_le_bytes()).collect::<Vec<_>>();
        for (dtype, bytes) in [("BF16", bf16), ("F16", f16), ("F32", o.data().to_vec())] {
            let path = packed(|tensors| {
                tensors[2] = f32s("v", &[3, 2, 4], |_| value);
                tensors.push(Tensor("expected_o", dtype, vec![3, 2, 4], bytes));
            });
            let path = write("rounded.safetensors", path);
            let said = frazil(["run".as_ref(), "--json".as_ref(), path.as_os_str()]);
            assert_eq!(said.assert_code(0).json()[0]["comparisons"][1]["against"], "expected_o");
        }
    }
}

#[test]
fn what_cannot_be_judged_is_not_right() {
    let nan = |names: &[usize]| {
        packed(|tensors| {
            for &at in names {
                let words = tensors[at].3.as_chunks_mut::<4>().0;
                words.iter_mut().for_each(|word| *word = f32::NAN.to_le_bytes());
            }
        })
    };
    // NaN in all of V leaves the LSE to judge.
    for (name, names, lse) in
        [("all", &[0, 1, 2][..], "not compared"), ("q", &[0], "not compared"), ("v", &[2], "right")]
    {
        let path = write(&format!("unjudged_{name}.safetensors"), nan(names));
        let said = frazil(["run".as_ref(), "--json".as_ref(), path.as_os_str()]);
        let object = &said.assert_code(1).json()[0];
        assert_eq!(object["status"], "not compared", "{name}");
        let (o, of_lse) = (&object["comparisons"][0], &object["comparisons"][1]);
        assert_eq!((&o["status"], &of_lse["status"]), (&json!("not compared"), &json!(lse)));
        assert_eq!((&o["num_compared"], &o["max_err"]), (&json!(0), &Value::Null));
        let said = frazil(["run".as_ref(), path.as_os_str()]);
        let stdout = &said.assert_code(1).stdout;
        assert!(stdout.contains("not compared against reference"), "{stdout}");
        assert_eq!(stdout.contains("right"), lse == "right", "{stdout}");
    }
    let path = write("unasked.safetensors", nan(&[0]));
    frazil(["run".as_ref(), "--no-compare".as_ref(), path.as_os_str()]).assert_code(0);
}

#[test]
fn expectations_made_without_a_flag_do_not_judge() {
    // 1/sqrt(32), which is what the file states.
    let same = ["--scale", "0.17677669529663687"];
    let cases: [(&[&str], Option<&str>); 7] = [
        (&["--causal"], Some("--causal")),
        (&["--causal", "--window", "5"], Some("--causal --window")),
        (&["--window", "9,9"], Some("--window")),
        (&["--soft-cap", "3", "--causal"], Some("--causal --soft-cap")),
        (&["--scale", "0.5"], Some("--scale")),
        (&same, None),
        (&["--window", "-1,-1"], None),
    ];
    for (flags, named) in cases {
        let said = command(["run", "--json"]).args(flags).arg(minilm(0)).output().unwrap();
        let said = common::Said::from(said);
        let object = &said.assert_code(0).json()[0];
        assert_eq!(object["status"], "right", "{flags:?}");
        for (reference, expected) in [(0, 1), (2, 3)] {
            let of = |at: usize| &object["comparisons"][at];
            assert_eq!(
                (&of(reference)["held"], &of(reference)["status"]),
                (&json!(true), &json!("right"))
            );
            let status = if named.is_some() { "not compared" } else { "right" };
            assert_eq!(of(expected)["status"], status, "{flags:?}");
            assert_eq!(of(expected)["held"], named.is_none());
        }
        let said = command(["run"]).args(flags).arg(minilm(0)).output().unwrap();
        let said = common::Said::from(said);
        if let Some(named) = named {
            let line = format!("expected_o was made without {named}: not compared");
            assert!(said.assert_code(0).stdout.contains(&line), "{}", said.stdout);
        }
    }
}

#[cfg(unix)]
#[test]
fn a_path_need_not_be_utf8() {
    use std::os::unix::ffi::OsStrExt as _;

    let name = std::ffi::OsStr::from_bytes(b"not_\xff_utf8.safetensors");
    let path = write("utf8.safetensors", packed(|_| {})).with_file_name(name);
    // Some file systems take UTF-8 alone.
    if std::fs::write(&path, packed(|_| {})).is_ok() {
        let said = frazil(["run".as_ref(), "--json".as_ref(), path.as_os_str()]);
        let object = &said.assert_code(0).json()[0];
        assert!(object["file"].as_str().unwrap().ends_with("not_\u{fffd}_utf8.safetensors"));
        assert!(frazil(["run".as_ref(), path.as_os_str()]).assert_code(0).stdout.contains("right"));
    }
}

#[cfg(unix)]
#[test]
fn an_output_is_replaced_whole() {
    use std::os::unix::fs::MetadataExt as _;

    let input = write("whole_q.safetensors", packed(|_| {}));
    let output = write("whole_a.safetensors", "before");
    let other_name = output.with_file_name("whole_a_before.safetensors");
    let _ = std::fs::remove_file(&other_name);
    std::fs::hard_link(&output, &other_name).unwrap();
    let said = command(["run", "--output"]).arg(&output).arg(&input).output().unwrap();
    common::Said::from(said).assert_code(0);
    // Another file took the name; the one before was not written to.
    assert_eq!(std::fs::read(&other_name).unwrap(), b"before");
    assert!(std::fs::metadata(&output).unwrap().size() > 100);
    let folder = std::fs::read_dir(output.parent().unwrap()).unwrap();
    let left = |name: &str| name.contains("whole_a.safetensors") && name.ends_with(".part");
    assert!(!folder.flatten().any(|file| left(&file.file_name().to_string_lossy())));
    let device = command(["run", "--output", "/dev/null"]).arg(&input).output().unwrap();
    common::Said::from(device).assert_code(0);
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
}
