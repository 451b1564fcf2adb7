//! What tensors hold before an execute, and what results may be.

use frazil::{DType, Geometry, Role, SdpaFwdFacts, TensorId};
use half::{bf16, f16};

use super::Bound;
use super::memory::POISON;
use crate::draft::OpDraft;
use crate::source::Source;

/// Greatest magnitude of an input.
const GREATEST: f32 = 2.0;

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
    fn walk(
        geometry: &Geometry,
        index: &mut Vec<u64>,
        at: u64,
        visit: &mut dyn FnMut(&[u64], usize),
    ) {
        let axis = index.len();
        if axis == geometry.rank() {
            return visit(index, usize::try_from(at).expect("small"));
        }
        for step in 0..geometry.extent(axis) {
            index.push(step);
            walk(geometry, index, at + step * geometry.stride(axis), visit);
            index.pop();
        }
    }
    if geometry.span() > 0 {
        walk(geometry, &mut Vec::new(), 0, visit);
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
        let of_tensor = |(role, id): &(Role, TensorId)| (*id == tensor.id).then_some(*role);
        let role = roles.iter().find_map(of_tensor).expect("each tensor has a role");
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

/// O is a mean of V, so no larger; the rest is finite, or minus infinity where no key is visible.
/// What was read beyond a tensor is a NaN and would show here.
///
/// # Panics
///
/// When a result cannot be.
pub(super) fn check_results(roles: &[(Role, TensorId)], tensors: &[Bound]) {
    for role in [Role::O, Role::Lse, Role::Max, Role::SumExp] {
        let Some(tensor) = bound(role, roles, tensors) else { continue };
        let bytes = tensor.memory.bytes();
        for_each_element(&tensor.geometry, &mut |index, at| {
            let two = || -> [u8; 2] { bytes[2 * at..][..2].try_into().expect("two bytes") };
            let (value, untouched) = match tensor.draft.dtype {
                DType::F16 => (f16::from_le_bytes(two()).to_f32(), two() == POISON),
                DType::Bf16 => (bf16::from_le_bytes(two()).to_f32(), two() == POISON),
                _ => {
                    let four: [u8; 4] = bytes[4 * at..][..4].try_into().expect("four bytes");
                    (f32::from_le_bytes(four), four.chunks(2).all(|pair| pair == POISON))
                }
            };
            let possible = match role {
                Role::O => value.abs() <= GREATEST * 1.01,
                Role::SumExp => value >= 0.0 && value.is_finite(),
                _ => value.is_finite() || value == f32::NEG_INFINITY,
            };
            assert!(possible || untouched, "{} is {value} at {index:?}", role.name());
        });
    }
}
