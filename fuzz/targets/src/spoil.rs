//! Ways to make the calls of a builder mean something else, or nothing.

use frazil::{DType, LengthBounds, Sequences, Storage, TensorId};

use crate::builder::Call;
use crate::draft::{OpDraft, TensorDraft};
use crate::source::Source;

/// Changes one thing.
pub(crate) fn spoil(source: &mut Source<'_>, calls: &mut Vec<Call>) {
    if calls.is_empty() {
        return;
    }
    let at = usize::try_from(source.below(calls.len() as u64)).unwrap_or(0);
    match source.below(12) {
        0 => drop(calls.remove(at)),
        1 => calls.insert(at, calls[at].clone()),
        2 => {
            let other = usize::try_from(source.below(calls.len() as u64)).unwrap_or(0);
            calls.swap(at, other);
        }
        3 => calls.insert(at, Call::Overridable),
        // More tensors than a graph can have.
        4 => {
            let more = usize::try_from(source.below(40)).unwrap_or(0);
            let call = calls[at].clone();
            calls.extend(std::iter::repeat_n(call, more));
        }
        _ => match &mut calls[at] {
            Call::Tensor(draft) => spoil_tensor(source, draft),
            Call::Op(draft) => spoil_op(source, draft),
            Call::Overridable => {}
        },
    }
}

/// Any extent or stride.
fn number(source: &mut Source<'_>) -> i64 {
    const EDGES: [i64; 9] =
        [0, 1, -1, i64::MAX, i64::MIN, 1 << 31, (1 << 31) - 1, 1 << 60, i64::MAX / 8];
    match source.below(4) {
        0 => source.pick(&EDGES),
        1 => source.word().cast_signed(),
        _ => source.up_to(40),
    }
}

fn spoil_tensor(source: &mut Source<'_>, draft: &mut TensorDraft) {
    let at = |source: &mut Source<'_>, len: usize| {
        usize::try_from(source.below(len as u64)).unwrap_or(0)
    };
    match source.below(8) {
        0 | 1 if !draft.extents.is_empty() => {
            let axis = at(source, draft.extents.len());
            draft.extents[axis] = number(source);
        }
        2 => {
            let strides = draft.strides.get_or_insert_with(|| vec![1; draft.extents.len()]);
            if !strides.is_empty() {
                let axis = at(source, strides.len());
                strides[axis] = number(source);
            }
        }
        3 => {
            let all = [
                DType::F16,
                DType::Bf16,
                DType::F32,
                DType::F8E4m3,
                DType::F8E5m2,
                DType::E8m0,
                DType::U8,
                DType::I32,
                DType::I64,
            ];
            draft.dtype = source.pick(&all);
        }
        4 => {
            let any = u32::from(source.byte());
            draft.align = Some(source.pick(&[0, 1, 2, 3, 4, 8, 1 << 31, u32::MAX, any]));
        }
        5 => draft.id = Some(number(source)),
        6 => drop(draft.extents.pop()),
        _ => {
            let last = draft.extents.last().copied().unwrap_or(1);
            draft.extents.push(last);
            if let (Some(strides), true) = (&mut draft.strides, source.flag()) {
                strides.push(1);
            }
        }
    }
}

fn float(source: &mut Source<'_>) -> f32 {
    const EDGES: [f32; 7] = [0.0, -0.0, 1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -1.0];
    #[expect(clippy::cast_possible_truncation, reason = "any 32 bits will do")]
    let any = f32::from_bits(source.word() as u32);
    if source.flag() { any } else { source.pick(&EDGES) }
}

fn spoil_op(source: &mut Source<'_>, op: &mut OpDraft) {
    match source.below(9) {
        0 => op.softmax_scale = Some(float(source)),
        1 => op.soft_cap = Some(float(source)),
        2 => {
            let probability = float(source);
            if let Some(dropout) = &mut op.dropout {
                dropout.probability = probability;
            }
        }
        3 => spoil_storage(source, &mut op.q_storage),
        4 => spoil_storage(source, &mut op.kv_storage),
        5 => std::mem::swap(&mut op.q_storage, &mut op.kv_storage),
        6 => {
            let any = TensorId(source.up_to(20));
            let optional =
                [&mut op.bias, &mut op.alibi, &mut op.sink, &mut op.max, &mut op.sum_exp];
            let count = optional.len() as u64;
            let which = usize::try_from(source.below(count)).unwrap_or(0);
            if let Some(place) = optional.into_iter().nth(which) {
                *place = Some(any);
            }
        }
        _ => {
            let any = TensorId(if source.one_in(4) { number(source) } else { source.up_to(20) });
            let mut ids = op.ids_mut();
            let which = usize::try_from(source.below(ids.len() as u64)).unwrap_or(0);
            *ids[which].1 = any;
        }
    }
}

fn spoil_storage(source: &mut Source<'_>, storage: &mut Storage) {
    let mut limit = |from: u32| match source.below(5) {
        0 => u32::MAX,
        1 => 1 << 31,
        2 => from.saturating_add(1),
        3 => 0,
        _ => source.int32().cast_unsigned(),
    };
    match storage {
        Storage::Padded { bounds, .. } | Storage::Paged { bounds, .. } => {
            *bounds = LengthBounds { min: limit(bounds.min), max: limit(bounds.max) };
        }
        Storage::Packed { sequences, bounds, max_total } => {
            *bounds = LengthBounds { min: bounds.min, max: limit(bounds.max) };
            *max_total = limit(*max_total);
            if let (Sequences::Lengths(id), 0) = (*sequences, bounds.max % 3) {
                *sequences = Sequences::Prefix(id);
            }
        }
        storage => {
            let id = TensorId(source.up_to(20));
            *storage =
                Storage::Padded { lengths: id, bounds: LengthBounds::up_to(source.byte().into()) };
        }
    }
}
