//! What an execute may leave behind.

use frazil::{DType, ErrorWord, Role, TensorId};
use half::{bf16, f16};

use super::Bound;
use super::live::{Live, LiveSide};
use super::memory::POISON;
use super::values::{GREATEST, for_each_element};

/// # Panics
///
/// When a bit is set that the data do not imply, or one is missing.
pub(super) fn check_word(live: &Live, word: Option<ErrorWord>) {
    assert_eq!(word.is_some(), live.steered, "an error word is there where one is needed");
    let Some(word) = word else { return };
    let most = live.must.with(live.may);
    assert!(
        word.contains(live.must) && most.contains(word),
        "error word {:#b}, the data imply {:#b} and allow {:#b}",
        word.0,
        live.must.0,
        live.may.0
    );
}

/// # Panics
///
/// When something was written that is not a live row's, or a live row was not.
pub(super) fn check_memory(live: &Live, roles: &[(Role, TensorId)], tensors: &[Bound]) {
    for tensor in tensors {
        let name = &tensor.draft.name;
        let role = role_of(tensor, roles);
        if !role.is_output() {
            assert!(tensor.memory.is_unchanged(), "input `{name}` was written");
            continue;
        }
        assert!(tensor.memory.is_whole_outside(), "bytes around `{name}` were written");
        let mut owed = vec![false; usize::try_from(tensor.geometry.span()).expect("small")];
        for_each_element(&tensor.geometry, &mut |index, at| {
            owed[at] = is_owed(live, (role, tensor.geometry.rank()), index);
        });
        let (after, before) = (tensor.memory.bytes(), tensor.memory.kept_bytes());
        let width = usize::try_from(tensor.draft.dtype.bytes()).expect("small");
        for (at, owed) in owed.iter().enumerate() {
            let bytes = at * width..(at + 1) * width;
            let element = &after[bytes.clone()];
            if *owed {
                let poison = element.chunks(2).all(|pair| pair == POISON);
                assert!(!poison, "element {at} of `{name}` was not written");
            } else {
                let same = *element == before[bytes];
                assert!(same, "element {at} of `{name}` is no live row's and was written");
            }
        }
    }
}

/// The role that a tensor has, the first one of several.
pub(super) fn role_of(tensor: &Bound, roles: &[(Role, TensorId)]) -> Role {
    let of_tensor = |(role, id): &(Role, TensorId)| (*id == tensor.id).then_some(*role);
    roles.iter().find_map(of_tensor).expect("each tensor has a role")
}

/// Whether an element of an output must be written; else it must not. `[B, H, S]` belongs to the
/// output as a whole, `[T, H, D]` and `[T, H]` row by row.
fn is_owed(live: &Live, (role, rank): (Role, usize), index: &[u64]) -> bool {
    match &live.q {
        LiveSide::Packed(rows) if role == Role::O || rank == 2 => {
            rows.iter().any(|rows| rows.contains(&index[0]))
        }
        _ => true,
    }
}

/// Rows past a length hold what no visible key gives, exactly. Where `tame`, O is a mean of V, so no
/// larger, and the rest is finite, or minus infinity where no key is visible: what was read from a
/// dead row, or from beyond a tensor, is a NaN and would show.
///
/// # Panics
///
/// When a result cannot be.
pub(super) fn check_results(
    live: &Live,
    roles: &[(Role, TensorId)],
    tensors: &[Bound],
    tame: bool,
) {
    for tensor in tensors {
        let role = role_of(tensor, roles);
        if !role.is_output() {
            continue;
        }
        let rank = tensor.geometry.rank();
        for_each_element(&tensor.geometry, &mut |index, at| {
            if !is_owed(live, (role, rank), index) {
                return;
            }
            let value = value(tensor, at);
            let name = role.name();
            if is_past_a_length(live, (role, rank), index) {
                let expected = match role {
                    Role::O | Role::SumExp => 0.0_f32,
                    _ => f32::NEG_INFINITY,
                };
                let same = value.to_bits() == expected.to_bits();
                assert!(same, "{name} is {value} past a length, at {index:?}");
            } else if tame {
                let possible = match role {
                    Role::O => value.abs() <= GREATEST * 1.01,
                    Role::SumExp => value >= 0.0 && value.is_finite(),
                    _ => value.is_finite() || value == f32::NEG_INFINITY,
                };
                assert!(possible, "{name} is {value} at {index:?}");
            }
        });
    }
}

/// Whether an element of an output by sequence lies past the length of its own.
fn is_past_a_length(live: &Live, (role, rank): (Role, usize), index: &[u64]) -> bool {
    let lens = match &live.q {
        LiveSide::Padded(rows) => rows,
        LiveSide::Packed(rows) if role != Role::O && rank == 3 => rows,
        _ => return false,
    };
    let rows = &lens[usize::try_from(index[0]).expect("small")];
    index[2] >= rows.end - rows.start
}

fn value(tensor: &Bound, at: usize) -> f32 {
    let bytes = tensor.memory.bytes();
    let two = || -> [u8; 2] { bytes[2 * at..][..2].try_into().expect("two bytes") };
    match tensor.draft.dtype {
        DType::F16 => f16::from_le_bytes(two()).to_f32(),
        DType::Bf16 => bf16::from_le_bytes(two()).to_f32(),
        _ => f32::from_le_bytes(bytes[4 * at..][..4].try_into().expect("four bytes")),
    }
}
