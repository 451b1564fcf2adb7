//! What tensors hold before an execute.

use frazil::{DType, Geometry, MAX_RANK, Role, SdpaFwdFacts, TensorId};
use half::{bf16, f16};

use super::Bound;
use super::contract::role_of;
use super::live::Live;
use super::memory::{GUARD as NAN, POISON};
use crate::draft::OpDraft;
use crate::source::Source;

/// Greatest magnitude of an input.
pub(super) const GREATEST: f32 = 2.0;

/// The tensor of a role.
pub(super) fn bound<'a>(
    role: Role,
    roles: &[(Role, TensorId)],
    tensors: &'a [Bound],
) -> Option<&'a Bound> {
    let (_, id) = roles.iter().find(|(known, _)| *known == role)?;
    tensors.iter().find(|tensor| tensor.id == *id)
}

/// Calls `visit` with the index of every element and its place in the span.
pub(super) fn for_each_element(geometry: &Geometry, visit: &mut dyn FnMut(&[u64], usize)) {
    let rank = geometry.rank();
    let mut strides = [0; MAX_RANK];
    for (axis, stride) in strides[..rank].iter_mut().enumerate() {
        *stride = usize::try_from(geometry.stride(axis)).expect("small");
    }
    let (mut index, mut at) = ([0; MAX_RANK], 0);
    let mut left = if geometry.span() == 0 { 0 } else { geometry.num_elements() };
    // Few branches for each element: a fuzzer counts them all.
    while left > 0 {
        let last = rank - 1;
        for column in 0..geometry.extent(last) {
            index[last] = column;
            visit(&index[..rank], at);
            at += strides[last];
            left -= 1;
        }
        at -= usize::try_from(geometry.extent(last)).expect("small") * strides[last];
        for axis in (0..last).rev() {
            index[axis] += 1;
            at += strides[axis];
            if index[axis] < geometry.extent(axis) {
                break;
            }
            at -= usize::try_from(index[axis]).expect("small") * strides[axis];
            index[axis] = 0;
        }
    }
}

/// An entry of a tensor of int32, as an engine reads it.
pub(super) fn int(bound: &Bound, index: &[u64]) -> i64 {
    let at: u64 = (0..).zip(index).map(|(axis, step)| step * bound.geometry.stride(axis)).sum();
    let at = usize::try_from(at).expect("small") * 4;
    let bytes = bound.memory.bytes()[at..at + 4].try_into().expect("four bytes");
    i32::from_le_bytes(bytes).into()
}

/// Fills every tensor: outputs with poison, floats with small numbers, device integers with
/// anything. What lies between elements stays a NaN.
pub(super) fn fill(
    source: &mut Source<'_>,
    tensors: &mut [Bound],
    roles: &[(Role, TensorId)],
    sdpa: &SdpaFwdFacts,
) {
    let mut noise = source.word();
    for tensor in tensors {
        let role = role_of(tensor, roles);
        match tensor.draft.dtype {
            _ if role.is_output() => {
                let (pairs, _) = tensor.memory.bytes_mut().as_chunks_mut::<2>();
                pairs.fill(POISON);
            }
            DType::I32 => fill_ints(source, tensor, role, sdpa),
            _ => fill_floats(&mut noise, tensor),
        }
        tensor.memory.keep();
    }
}

fn fill_floats(noise: &mut u64, tensor: &mut Bound) {
    let (dtype, geometry) = (tensor.draft.dtype, tensor.geometry);
    let bytes = tensor.memory.bytes_mut();
    for_each_element(&geometry, &mut |_, at| {
        // Xorshift (Marsaglia, 2003), which must not start at 0.
        *noise |= 1;
        *noise ^= *noise << 13;
        *noise ^= *noise >> 7;
        *noise ^= *noise << 17;
        #[expect(clippy::cast_precision_loss, reason = "16 bits")]
        let value = ((*noise >> 48) as f32 / 32_768.0 - 1.0) * GREATEST;
        match dtype {
            DType::F16 => bytes[2 * at..][..2].copy_from_slice(&f16::from_f32(value).to_le_bytes()),
            DType::Bf16 => {
                bytes[2 * at..][..2].copy_from_slice(&bf16::from_f32(value).to_le_bytes());
            }
            _ => bytes[4 * at..][..4].copy_from_slice(&value.to_le_bytes()),
        }
    });
}

/// Sound entries, with none, some or all replaced by anything.
fn fill_ints(source: &mut Source<'_>, tensor: &mut Bound, role: Role, sdpa: &SdpaFwdFacts) {
    let hostile = source.pick(&[0_u64, 0, 4, 1]);
    let base = source.maybe(4, Source::int32).unwrap_or(0);
    let bounds = match role {
        Role::QLengths | Role::QPrefix | Role::QStarts => sdpa.q_side().bounds(),
        _ => sdpa.kv_side().bounds(),
    };
    let longest = bounds.map_or(0, |bounds| i64::from(bounds.max));
    let mut sum = base;
    let geometry = tensor.geometry;
    let bytes = tensor.memory.bytes_mut();
    for_each_element(&geometry, &mut |_, at| {
        let small = i32::try_from(source.up_to(longest.min(255))).unwrap_or(0);
        let sound = match role {
            Role::QPrefix | Role::KvPrefix => sum,
            Role::TableK | Role::TableV => small % 4,
            _ => small,
        };
        sum = sum.wrapping_add(small);
        let any = hostile == 1 || hostile > 1 && source.one_in(hostile);
        let entry = if any { source.int32() } else { sound };
        bytes[4 * at..][..4].copy_from_slice(&entry.to_le_bytes());
    });
}

/// Whether no number of the operation can make a result of small inputs anything but finite.
pub(super) fn are_tame(op: &OpDraft) -> bool {
    op.softmax_scale.is_none_or(|scale| scale.abs() <= 1.0)
        && op.soft_cap.is_none_or(|cap| (0.1..1e3).contains(&cap))
}

/// Makes every element of Q, K and V that belongs to no live row a NaN: it may have no effect. One that
/// shares its memory with a live row's stays.
pub(super) fn poison_dead_rows(live: &Live, tensors: &mut [Bound], roles: &[(Role, TensorId)]) {
    for tensor in tensors {
        let role = role_of(tensor, roles);
        if !matches!(role, Role::Q | Role::K | Role::V) {
            continue;
        }
        let geometry = tensor.geometry;
        let mut is_live = vec![false; usize::try_from(geometry.span()).expect("small")];
        for_each_element(&geometry, &mut |index, at| is_live[at] |= live.holds(role, index));
        let width = usize::try_from(tensor.draft.dtype.bytes()).expect("small");
        let elements = tensor.memory.bytes_mut().chunks_exact_mut(width);
        for (element, _) in elements.zip(is_live).filter(|(_, is_live)| !is_live) {
            element.fill(NAN);
        }
        tensor.memory.keep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_visited_once_in_order() {
        let visited = |extents: &[i64], strides: &[i64]| {
            let geometry = Geometry::strided(extents, strides).expect("small");
            let mut visited = Vec::new();
            for_each_element(&geometry, &mut |index, at| visited.push((index.to_vec(), at)));
            visited
        };
        assert_eq!(visited(&[3], &[2]), [(vec![0], 0), (vec![1], 2), (vec![2], 4)]);
        assert!(visited(&[2, 0, 3], &[1, 1, 1]).is_empty());
        let mut expected = Vec::new();
        for (a, b, c, d) in (0..2 * 3 * 2 * 4).map(|n| (n / 24, n / 8 % 3, n / 4 % 2, n % 4)) {
            let at = a * 100 + b * 7 + c * 50 + d;
            expected.push((vec![a, b, c, d], usize::try_from(at).expect("small")));
        }
        assert_eq!(visited(&[2, 3, 2, 4], &[100, 7, 50, 1]), expected);
    }
}
