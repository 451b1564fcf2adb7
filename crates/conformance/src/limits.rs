//! How much memory a case may ask for.
//!
//! A case of a few lines can name extents that no memory holds, in buffers of any size or, with
//! strides of 0, of hardly any. Whatever is made of a case in memory is measured here first, from
//! its numbers alone, and refused by name.

use frazil_core::Role;

use crate::case::{Case, SideCase};
use crate::declare::{CaseError, Declared};
use crate::sizes::Sizes;

/// Most heads of all sequences: the reference keeps something of each.
const MAX_HEADS: u64 = 1 << 24;

/// Most bytes of all buffers, of which there are three copies.
const MAX_BYTES: u64 = 4 << 30;

/// Most elements of one tensor that are drawn or computed one by one: those of O are kept with their
/// tolerances, 12 bytes each. Four times those of the largest case there is.
const MAX_ELEMENTS: u64 = 1 << 29;

/// Most pages of a pool, and most entries of a page table: both are listed.
const MAX_PAGES: u64 = 1 << 26;

/// Refuses a case that would take too much memory.
///
/// # Errors
///
/// [`CaseError::Case`] names the case, what is too much and how much it is.
pub(crate) fn check(case: &Case, declared: &Declared) -> Result<(), CaseError> {
    let sizes = Sizes::of_run(case);
    let refuse_above = |most: u64, what: &str, found: u64| {
        if found <= most {
            return Ok(());
        }
        let name = &case.name;
        Err(CaseError::Case(format!("{name}: {what} {found}, above the limit of {most}")))
    };
    refuse_above(MAX_HEADS, "batch x num_q_heads is", product(&[case.batch, case.num_q_heads]))?;
    refuse_above(MAX_HEADS, "batch x num_kv_heads is", product(&[case.batch, case.num_kv_heads]))?;
    for (name, side, sizes) in [("q", &case.q, sizes.q), ("kv", &case.kv, sizes.kv)] {
        if matches!(side, SideCase::Paged { .. }) {
            refuse_above(MAX_PAGES, &format!("{name}.num_pages is"), sizes.rows)?;
            let entries = product(&[case.batch, sizes.pages]);
            refuse_above(MAX_PAGES, &format!("entries of the page table of {name} are"), entries)?;
        }
    }
    refuse_above(MAX_BYTES, "bytes of all buffers are", bytes(declared))?;
    for (role, elements) in elements(case, &sizes) {
        refuse_above(MAX_ELEMENTS, &format!("elements of {} are", role.name()), elements)?;
    }
    Ok(())
}

/// Bytes of all buffers, each as long as its tensors need.
fn bytes(declared: &Declared) -> u64 {
    let mut buffers: Vec<(&str, u64)> = Vec::new();
    for tensor in &declared.tensors {
        let span = tensor.geometry.span().saturating_mul(tensor.dtype.bytes());
        let end = tensor.offset_bytes.saturating_add(span);
        match buffers.iter_mut().find(|(name, _)| *name == tensor.buffer) {
            Some((_, bytes)) => *bytes = end.max(*bytes),
            None => buffers.push((&tensor.buffer, end)),
        }
    }
    buffers.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
}

/// Elements of the tensors that live rows have, counted as often as they are written.
fn elements(case: &Case, sizes: &Sizes) -> [(Role, u64); 5] {
    let rows = |lengths: Option<Vec<u64>>, extent: u64| match lengths {
        Some(lengths) => {
            lengths.iter().fold(0, |sum: u64, &length| sum.saturating_add(length.min(extent)))
        }
        None => product(&[case.batch, extent]),
    };
    let q_rows = rows(case.q.live_lengths(), sizes.q.max_len);
    let kv_rows = rows(case.kv.live_lengths(), sizes.kv.max_len);
    let bias = case.bias.map_or(0, |bias| {
        let or_one = |each, count| if each { count } else { 1 };
        let heads =
            product(&[or_one(bias.per_batch, case.batch), or_one(bias.per_head, case.num_q_heads)]);
        product(&[heads, sizes.q.max_len, sizes.kv.max_len])
    });
    [
        (Role::Q, product(&[q_rows, case.num_q_heads, case.head_dim_qk])),
        (Role::K, product(&[kv_rows, case.num_kv_heads, case.head_dim_qk])),
        (Role::V, product(&[kv_rows, case.num_v_heads(), case.head_dim_v()])),
        (Role::O, product(&[q_rows, case.num_q_heads, case.head_dim_v()])),
        (Role::Bias, bias),
    ]
}

/// Saturates: too much is too much.
fn product(factors: &[u64]) -> u64 {
    factors.iter().fold(1, |product: u64, &factor| product.saturating_mul(factor))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::declare::declare;
    use crate::instance::Instance;

    /// A plain case with some fields changed.
    fn case(changes: &Value) -> Case {
        let mut fields = json!({
            "name": "large", "dtype": "f16", "batch": 2, "num_q_heads": 1, "num_kv_heads": 1,
            "head_dim_qk": 8, "seqlen_q": 1, "seqlen_kv": 1,
        });
        let object = fields.as_object_mut().unwrap();
        changes.as_object().unwrap().iter().for_each(|(name, value)| {
            object.insert(name.clone(), value.clone());
        });
        serde_json::from_value(fields).unwrap()
    }

    #[rstest::rstest]
    #[case::heads(json!({ "batch": 1 << 24, "num_q_heads": 2 }), "batch x num_q_heads is 33554432")]
    #[case::rows(json!({ "seqlen_q": 1_u64 << 30 }), "bytes of all buffers are 68719476800")]
    #[case::rows_of_one_element(
        json!({ "seqlen_kv": 1 << 30, "place": { "k": { "strides": [0, 0, 0, 1] },
            "v": { "strides": [0, 0, 0, 1] } } }),
        "elements of k are 17179869184"
    )]
    #[case::offset(
        json!({ "place": { "q": { "offset": 1_u64 << 40 } } }),
        "bytes of all buffers are 21990232"
    )]
    #[case::offset_past_64_bits(
        json!({ "place": { "q": { "offset": u64::MAX } } }),
        "place.q.offset 18446744073709551615 is above 2^64 bytes"
    )]
    #[case::stride(
        json!({ "place": { "q": { "strides": [1_u64 << 40, 8, 8, 1] } } }),
        "bytes of all buffers are 2199023255"
    )]
    #[case::pool(
        json!({ "kv": { "form": "paged", "lengths": [1, 1], "page_size": 1,
            "num_pages": 1 << 30 }, "place": { "k": { "strides": [0, 8, 8, 1] },
            "v": { "strides": [0, 8, 8, 1] } } }),
        "kv.num_pages is 1073741824"
    )]
    #[case::page_table(
        json!({ "kv": { "form": "paged", "lengths": [1, 1], "page_size": 1, "num_pages": 2 },
            "seqlen_kv": 1 << 30, "place": { "table_k": { "strides": [0, 0] },
            "table_v": { "strides": [0, 0] } } }),
        "entries of the page table of kv are 2147483648"
    )]
    #[case::bias(
        json!({ "seqlen_q": 1 << 17, "seqlen_kv": 1 << 17, "bias": { "dtype": "f32" },
            "place": { "bias": { "strides": [0, 0, 0, 0] } } }),
        "elements of bias are 17179869184"
    )]
    #[case::list(
        json!({ "batch": u64::MAX, "kv": { "form": "packed_prefix", "lengths": [1] } }),
        "kv.lengths has 1 entries"
    )]
    fn what_no_memory_holds_is_refused(#[case] changes: Value, #[case] text: &str) {
        let case = case(&changes);
        let error = declare(&case).and_then(|declared| Instance::new(&case, &declared));
        let error = error.unwrap_err();
        assert!(matches!(error, CaseError::Case(_)), "{error}");
        assert!(error.to_string().starts_with("large: "), "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }

    #[test]
    fn work_that_no_number_holds_is_a_lot() {
        let case = case(&json!({ "batch": u64::MAX, "seqlen_q": u64::MAX, "seqlen_kv": 3 }));
        assert_eq!(case.live_flops(), u64::MAX);
    }
}
