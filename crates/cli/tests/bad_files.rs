//! Files and arguments that mean nothing: each is refused with code 2, by name, value and limit.

mod common;

use common::{Tensor, command, f32s, file, i32s, packed, with_header, write};
use frazil_conformance::cargo_path;

/// Runs a file that must be refused, and gives the message.
fn refused(name: &str, bytes: &[u8], options: &[&str]) -> String {
    let path = write(&format!("bad_{name}.safetensors"), bytes);
    let said = command(["run", "--json"]).args(options).arg(&path).output();
    let said = common::Said::from(said.expect("the program starts"));
    said.assert_code(2);
    assert_eq!(said.stdout, "", "{name}");
    assert!(said.stderr.contains(&format!("bad_{name}.safetensors")), "{name}: {}", said.stderr);
    said.stderr
}

/// A header of `q` alone.
fn q(dtype: &str, shape: &str, offsets: &str) -> String {
    format!(r#"{{"q": {{"dtype": "{dtype}", "shape": {shape}, "data_offsets": {offsets}}}}}"#)
}

#[test]
fn headers_that_lie() {
    let good = packed(|_| {});
    let header = usize::try_from(u64::from_le_bytes(*good.first_chunk().unwrap())).unwrap();
    let two = r#"{"k": {"dtype": "U8", "shape": [8], "data_offsets": [4, 12]},
                  "q": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}}"#;
    let near_the_end = format!(
        r#"{{"a": {{"dtype": "U8", "shape": [{0}], "data_offsets": [0, {0}]}},
            "b": {{"dtype": "U8", "shape": [{0}], "data_offsets": [{0}, {1}]}}}}"#,
        (1_u64 << 60) - 1,
        (1_u64 << 61) - 2,
    );
    let cases: [BadFile<'_>; 19] = [
        ("empty", Vec::new(), &["0 bytes", "8"]),
        ("short", good[..7].to_vec(), &["7 bytes", "8"]),
        ("truncated_header", good[..100].to_vec(), &["header of", "92 follow"]),
        (
            "truncated_data",
            good[..good.len() - 1].to_vec(),
            &["data_offsets end at", "bytes of data"],
        ),
        ("trailing", [good.as_slice(), b"x"].concat(), &["bytes of data, the tensors take"]),
        (
            "huge_header",
            [&[0xff; 8][..], &good[8..]].concat(),
            &["18446744073709551615", "100000000"],
        ),
        ("no_json", with_header("{\"q\": ", b""), &["no JSON"]),
        ("no_object", with_header("[1, 2]", b""), &["no JSON object"]),
        ("no_utf8", [&good[..8], &vec![0xff; header], &good[8 + header..]].concat(), &["no JSON"]),
        ("no_fields", with_header(r#"{"q": {}}"#, b""), &["`q`", "dtype"]),
        ("unknown_dtype", with_header(&q("F17", "[1]", "[0, 2]"), b"xx"), &["`q`", "F17"]),
        ("negative_extent", with_header(&q("F32", "[-1]", "[0, 4]"), b"xxxx"), &["`q`", "-1"]),
        (
            "past_the_end",
            with_header(&q("F32", "[4]", "[0, 16]"), b"xxxx"),
            &["`q`", "16", "4 bytes"],
        ),
        ("backwards", with_header(&q("F32", "[1]", "[4, 0]"), b"xxxx"), &["`q`", "begin at 4"]),
        (
            "wrong_size",
            with_header(&q("F32", "[2]", "[0, 4]"), b"xxxx"),
            &["`q`", "[2]", "8 bytes", "hold 4"],
        ),
        (
            "overflow",
            with_header(&q("F32", "[4294967296, 4294967296]", "[0, 4]"), b"xxxx"),
            &["`q`", "2^64"],
        ),
        ("overlap", with_header(two, &[0; 12]), &["`k`", "(4, 12)", "overlaps", "8"]),
        ("gap", with_header(&q("F32", "[1]", "[4, 8]"), &[0; 8]), &["`q`", "gap", "0"]),
        ("sum_of_offsets", with_header(&near_the_end, b""), &["`a`", "holds 0 bytes"]),
    ];
    assert_refused(&cases, &[]);
}

/// Packed tensors, the one at that place replaced.
fn with(at: usize, tensor: Tensor) -> Vec<u8> {
    packed(|tensors| tensors[at] = tensor)
}

/// A name, a file that must be refused, and parts of the message.
type BadFile<'a> = (&'a str, Vec<u8>, &'a [&'a str]);

fn assert_refused(cases: &[BadFile<'_>], options: &[&str]) {
    for (name, bytes, parts) in cases {
        let message = refused(name, bytes, options);
        for part in *parts {
            assert!(message.contains(part), "{name}: `{part}` in {message}");
        }
    }
}

#[test]
fn lengths_that_do_not_fit() {
    let int64 = Tensor("q_prefix", "I64", vec![3], [0_i64, 1, 3].map(i64::to_le_bytes).concat());
    let cases: [BadFile<'_>; 11] = [
        ("int64_prefix", with(3, int64), &["`q_prefix`", "I64", "I32"]),
        (
            "prefix_rank",
            with(3, Tensor("q_prefix", "I32", vec![1, 3], vec![0; 12])),
            &["`q_prefix`", "[1, 3]", "rank 1"],
        ),
        ("prefix_empty", with(3, i32s("q_prefix", &[])), &["`q_prefix`", "no entry"]),
        (
            "prefix_short",
            with(3, i32s("q_prefix", &[0, 1, 2])),
            &["`q_prefix`", "cover 2 rows", "3 rows of `q`"],
        ),
        (
            "prefix_long",
            with(4, i32s("kv_prefix", &[0, 1, 4])),
            &["`kv_prefix`", "cover 4 rows", "3 rows of `k`"],
        ),
        (
            "prefix_falls",
            with(3, i32s("q_prefix", &[0, 5, 3])),
            &["`q_prefix`", "from 5 to 3", "entry 2"],
        ),
        (
            "prefix_wraps",
            with(3, i32s("q_prefix", &[i32::MIN, 0, i32::MAX])),
            &["`q_prefix`", "cover 4294967295"],
        ),
        ("prefix_batch", with(3, i32s("q_prefix", &[0, 3])), &["batch", "2", "1"]),
        (
            "prefix_missing",
            packed(|tensors| drop(tensors.remove(3))),
            &["`q_prefix`", "`q_lengths`"],
        ),
        (
            "both_forms",
            packed(|tensors| tensors.push(i32s("q_lengths", &[1, 2]))),
            &["`q_prefix`", "`q_lengths`"],
        ),
        (
            "negative_length",
            with(3, i32s("q_lengths", &[-1, 4])),
            &["`q_lengths`", "entry 0", "-1"],
        ),
    ];
    assert_refused(&cases, &[]);
}

#[test]
fn tensors_that_do_not_agree() {
    let zeros = |name, shape: &[u64]| f32s(name, shape, |_| 0.0);
    let no_bytes = |name, shape: &[u64]| Tensor(name, "F32", shape.to_vec(), Vec::new());
    let empty = |extent| {
        let shape = [extent, 2, 0, 8];
        file(&[no_bytes("q", &shape), no_bytes("k", &shape), no_bytes("v", &shape)], &[])
    };
    let cases: [BadFile<'_>; 13] = [
        ("missing_v", packed(|tensors| drop(tensors.remove(2))), &["`v`", "missing"]),
        ("unknown", packed(|tensors| tensors.push(i32s("mask", &[1]))), &["`mask`", "known"]),
        (
            "int_q",
            with(0, Tensor("q", "I32", vec![3, 2, 8], vec![0; 192])),
            &["`q`", "I32", "F16, BF16 or F32"],
        ),
        ("short_v", with(2, zeros("v", &[2, 2, 4])), &["`v`", "2", "3"]),
        ("heads", with(1, zeros("k", &[3, 3, 8])), &["3"]),
        ("columns", with(1, zeros("k", &[3, 2, 7])), &["`k`", "7", "8"]),
        (
            "rank_5",
            with(0, zeros("q", &[1, 1, 3, 2, 8])),
            &["`q`", "rank 5", "3 [tokens", "4 [batch"],
        ),
        ("rank_0_v", with(2, Tensor("v", "F32", vec![], vec![0; 4])), &["`v`", "rank 0"]),
        (
            "expected_shape",
            packed(|tensors| tensors.push(zeros("expected_o", &[3, 2, 8]))),
            &["`expected_o`", "[3, 2, 8]", "[3, 2, 4]"],
        ),
        (
            "expected_dtype",
            packed(|tensors| tensors.push(i32s("expected_lse", &[1]))),
            &["`expected_lse`", "I32"],
        ),
        ("huge_extent", empty(1 << 40), &["`q`", "1099511627776", "2147483647"]),
        (
            "scale_text",
            file(&[zeros("q", &[1, 1, 1, 1])], &[("softmax_scale", "one half")]),
            &["softmax_scale", "one half"],
        ),
        (
            "scale_nan",
            file(
                &[zeros("q", &[1, 1, 1, 1]), zeros("k", &[1, 1, 1, 1]), zeros("v", &[1, 1, 1, 1])],
                &[("softmax_scale", "NaN")],
            ),
            &["softmax_scale", "NaN", "finite"],
        ),
    ];
    assert_refused(&cases, &[]);
}

#[test]
fn options_that_mean_nothing() {
    let good = packed(|_| {});
    let cases: [(&str, &[&str], &[&str]); 4] = [
        ("option_scale", &["--scale", "nan"], &["softmax_scale", "NaN"]),
        ("option_scale_inf", &["--scale", "inf"], &["softmax_scale", "inf"]),
        ("option_cap", &["--soft-cap", "0"], &["soft_cap", "0"]),
        ("option_cap_negative", &["--soft-cap", "-1"], &["soft_cap", "-1"]),
    ];
    for (name, options, parts) in cases {
        assert_refused(&[(name, good.clone(), parts)], options);
    }
}

#[test]
fn a_file_that_is_not_there() {
    let said = common::frazil(["run", "no_such.safetensors"]);
    assert!(said.assert_code(2).stderr.contains("no_such.safetensors"), "{said:?}");
}

#[test]
fn what_is_no_regular_file() {
    let folder = cargo_path!("CARGO_MANIFEST_DIR");
    for command in ["run", "check", "explain"] {
        let said = common::frazil([command.as_ref(), folder.as_os_str()]);
        assert!(said.assert_code(2).stderr.contains("is a folder"), "{said:?}");
    }
    #[cfg(unix)]
    {
        // A pipe of an earlier run would block whoever opens it to write.
        let fifo = write("beside_fifo", "").with_file_name("fifo");
        let _ = std::fs::remove_file(&fifo);
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.is_ok_and(|status| status.success()), "mkfifo");
        for path in ["/dev/zero", fifo.to_str().unwrap()] {
            for command in ["run", "check", "explain"] {
                let said = common::frazil([command, path]);
                assert!(said.assert_code(2).stderr.contains("is no regular file"), "{said:?}");
                assert!(said.stderr.contains(path), "{said:?}");
            }
        }
    }
}

#[test]
fn extents_of_nothing_that_take_a_huge_workspace() {
    let empty = |name, shape: [u64; 4]| Tensor(name, "F32", shape.to_vec(), Vec::new());
    let shape = [1 << 27, 1, 0, 1];
    let bytes = file(&[empty("q", shape), empty("k", shape), empty("v", shape)], &[]);
    assert_refused(&[("huge_workspace", bytes, &["workspace of", "limit is 4294967296"])], &[]);
}

#[test]
fn names_that_are_there_twice() {
    let good = packed(|_| {});
    let header = usize::try_from(u64::from_le_bytes(*good.first_chunk().unwrap())).unwrap();
    let (text, data) = (std::str::from_utf8(&good[8..8 + header]).unwrap(), &good[8 + header..]);
    let more = |entry: &str| with_header(&format!("{{{entry}, {}", &text[1..]), data);
    let entry = |name: &str| {
        format!(r#""{name}": {{"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}"#)
    };
    let metadata = r#""__metadata__": {"a": "1"}"#;
    let cases: [BadFile<'_>; 5] = [
        ("twice_q", more(&entry("q")), &["tensor `q` is there twice"]),
        ("twice_escaped", more(&entry("\\u0071")), &["tensor `q` is there twice"]),
        ("twice_field", more(r#""x": {"dtype": "U8", "dtype": "F32"}"#), &["`x`", "dtype"]),
        (
            "twice_metadata",
            more(&format!("{metadata}, {metadata}")),
            &["`__metadata__` is there twice"],
        ),
        (
            "twice_scale",
            more(r#""__metadata__": {"softmax_scale": "1", "softmax_scale": "2"}"#),
            &["`softmax_scale` is there twice"],
        ),
    ];
    assert_refused(&cases, &[]);
    let other = write("other_metadata.safetensors", more(r#""__metadata__": {"softmax": "1"}"#));
    common::frazil(["run".as_ref(), other.as_os_str()]).assert_code(0);
}
