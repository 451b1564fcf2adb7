//! The reader of safetensors files of the command line.
//!
//! Whatever the bytes, reading them gives an error that names a tensor or a part of the file, or
//! tensors that hold what the file holds, with sequences inside their rows. Memory is bounded by the
//! size of the file, not by what its header claims: libFuzzer's limits watch over that.

use std::path::Path;

use frazil::DType;

use crate::Reached;
use crate::input::{Input, Rows, Side, Tensor};

/// Most sequences, heads and rows of a file that are looked at.
const MOST: usize = 16;

/// How a message begins: with the part of the file at fault. Others would be another reader's words
/// about a header that ours let pass.
const BEGINNINGS: [&str; 7] =
    ["tensor `", "header", "claims a header", "has ", "holds ", "metadata ", "both `"];

/// The body of the target.
///
/// # Panics
///
/// When the reader breaks a promise.
pub(crate) fn safetensors(input: &[u8]) -> Reached {
    let read = |dtype| Input::parse(Path::new("fuzzed"), input, dtype);
    let as_it_is = match read(None) {
        Ok(input) => input,
        Err(why) => {
            let begins = BEGINNINGS.iter().any(|beginning| why.starts_with(beginning));
            assert!(begins, "names no part of the file: {why}");
            return Reached::Refused;
        }
    };
    check(&as_it_is, input.len());
    for dtype in [DType::F16, DType::Bf16, DType::F32] {
        let converted = read(Some(dtype)).expect("what reads, reads in another type");
        check_converted(&as_it_is, &converted, dtype);
    }
    Reached::Read
}

fn check(input: &Input, file_bytes: usize) {
    let tensors = [Some(&input.q), Some(&input.k), Some(&input.v)];
    let tensors =
        tensors.into_iter().chain([&input.expected_o, &input.expected_lse].map(Option::as_ref));
    let mut held = 0;
    for tensor in tensors.flatten() {
        check_tensor(tensor);
        held += tensor.bytes.as_bytes().len();
    }
    assert!(held <= file_bytes, "{held} bytes from a file of {file_bytes}");
    assert!(!input.rounded, "nothing was converted");
    check_side(&input.q_side, &input.q);
    check_side(&input.kv_side, &input.k);
}

fn check_tensor(tensor: &Tensor) {
    let width = usize::try_from(tensor.dtype.bytes()).expect("a few bytes");
    let elements = tensor.shape.iter().product::<usize>();
    assert_eq!(tensor.bytes.as_bytes().len(), elements * width);
    assert_eq!(tensor.values().len(), elements);
}

/// Live rows lie inside the tensor, packed ones one after another.
fn check_side(side: &Side, tensor: &Tensor) {
    let columns = tensor.shape.last().copied().unwrap_or(0);
    let num_heads = tensor.shape[1];
    assert_eq!(tensor.shape.len(), if side.is_packed() { 3 } else { 4 });
    assert_eq!(side.extent, tensor.shape[if side.is_packed() { 0 } else { 2 }]);
    let (least, greatest) = side.length_range();
    assert!(least <= greatest && greatest <= side.extent, "{least}..={greatest}");
    let entries = match &side.rows {
        Rows::Dense => None,
        Rows::Padded(entries) | Rows::Lengths(entries) => Some(entries.len()),
        Rows::Prefix(entries) => Some(entries.len() - 1),
    };
    assert!(entries.is_none_or(|entries| entries == side.batch));
    let mut end = 0;
    for seq in 0..side.batch.min(MOST) {
        let (first, rows) = side.sequence(seq);
        assert!((least..=greatest).contains(&rows), "sequence {seq} has {rows} rows");
        assert!(first + rows <= side.extent, "sequence {seq} ends outside");
        if side.is_packed() {
            assert_eq!(first, end, "sequence {seq} begins where the one before it ends");
            end += rows;
        }
        for (head, row) in (0..num_heads.min(MOST)).zip(0..rows.min(MOST)) {
            let index = side.row_index(num_heads, seq, head, row);
            let elements = tensor.values().len();
            assert!(elements == 0 || (index + 1) * columns <= elements, "row {index} lies outside");
        }
    }
}

/// Conversion keeps shapes, says whether it rounded, and never rounds to a wider type.
fn check_converted(from: &Input, to: &Input, dtype: DType) {
    let mut exact = true;
    for (from, to) in [(&from.q, &to.q), (&from.k, &to.k), (&from.v, &to.v)] {
        check_tensor(to);
        assert_eq!((to.dtype, &to.shape), (dtype, &from.shape));
        let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        let all = from.values().iter().zip(&to.values()).all(same);
        let widens = from.dtype == dtype || dtype == DType::F32;
        assert!(all || !widens, "{} to {dtype} changed a value", from.dtype);
        exact &= all;
    }
    assert_eq!(to.rounded, !exact, "whether something was rounded");
}
