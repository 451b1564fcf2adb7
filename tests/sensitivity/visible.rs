//! With one-hot rows of V, O shows exactly which keys each query saw.

use std::collections::BTreeSet;
use std::sync::Arc;

use frazil::{
    Align, Band, Bindings, DType, Facts, GraphBuilder, HostBuffer, LengthBounds, Router, SdpaFwd,
    Storage, Stream, TensorSpec, Workspace,
};

const SQ: usize = 7;
const SKV: usize = 9;
const D: usize = 4;

/// Lengths of every sequence: all pairs.
fn lengths() -> Vec<(usize, usize)> {
    (0..=SQ).flat_map(|q| (0..=SKV).map(move |kv| (q, kv))).collect()
}

/// Keys that a query sees, by the words of the contract, in numbers wide enough for any bound.
fn visible(band: Option<Band>, (len_q, len_kv): (usize, usize), i: usize) -> BTreeSet<usize> {
    let wide = |count: usize| i128::try_from(count).unwrap();
    let sees = |j: &usize| {
        let Some(Band { align, left, right }) = band else { return true };
        let off = if align == Align::TopLeft { 0 } else { wide(len_kv) - wide(len_q) };
        let first = left.map_or(i128::MIN, |left| wide(i) + off - i128::from(left));
        let last = right.map_or(i128::MAX, |right| wide(i) + off + i128::from(right));
        (first..=last).contains(&wide(*j))
    };
    (0..len_kv).filter(sees).collect()
}

/// Numbers in a buffer.
fn memory<const N: usize>(words: impl Iterator<Item = [u8; N]>) -> HostBuffer {
    let bytes: Vec<u8> = words.flatten().collect();
    let mut memory = HostBuffer::zeroed(bytes.len());
    memory.as_bytes_mut().copy_from_slice(&bytes);
    memory
}

/// Keys that each row shows in O, for every sequence.
fn shown(band: Option<Band>) -> Vec<Vec<BTreeSet<usize>>> {
    let sequences = lengths();
    let batch = sequences.len();
    let mut builder = GraphBuilder::new();
    let mut tensor = |name: &str, dtype, extents: &[usize]| {
        let extents: Vec<i64> = extents.iter().map(|&extent| extent.try_into().unwrap()).collect();
        builder.tensor(TensorSpec::contiguous(name, dtype, extents)).unwrap()
    };
    let q = tensor("q", DType::F32, &[batch, 1, SQ, D]);
    let k = tensor("k", DType::F32, &[batch, 1, SKV, D]);
    let v = tensor("v", DType::F32, &[batch, 1, SKV, SKV]);
    let o = tensor("o", DType::F32, &[batch, 1, SQ, SKV]);
    let q_lengths = tensor("q_lengths", DType::I32, &[batch]);
    let kv_lengths = tensor("kv_lengths", DType::I32, &[batch]);
    let padded = |lengths, max: usize| Storage::Padded {
        lengths,
        bounds: LengthBounds::up_to(max.try_into().unwrap()),
    };
    let mut op = SdpaFwd::new(q, k, v, o).storage(padded(q_lengths, SQ), padded(kv_lengths, SKV));
    if let Some(band) = band {
        op = op.band(band);
    }
    builder.sdpa_fwd(op).unwrap();
    let facts = Arc::new(Facts::read(&builder.finish().unwrap()).unwrap());
    let device = frazil::cpu::host();
    let router = Router::from_registrations().unwrap();
    let plans = router.plans(&facts, &Arc::new(device.target().clone())).unwrap();
    let executable = router.build_first(&plans, &device).unwrap().executable;

    let floats = |value: fn(usize) -> f32, count: usize| {
        memory((0..count).map(|at| value(at).to_ne_bytes()))
    };
    let ints = |which: fn(&(usize, usize)) -> usize| {
        memory(sequences.iter().map(|pair| i32::try_from(which(pair)).unwrap().to_ne_bytes()))
    };
    // Scores differ a little, so that a weight of 0 is a key that was not seen.
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let wave = |at: usize| (at as f32).sin();
    let one_hot = |at: usize| if at % SKV == at / SKV % SKV { 1.0 } else { 0.0 };
    let mut tensors = [
        (q, floats(wave, batch * SQ * D)),
        (k, floats(wave, batch * SKV * D)),
        (v, floats(one_hot, batch * SKV * SKV)),
        (o, floats(|_| f32::NAN, batch * SQ * SKV)),
        (q_lengths, ints(|pair| pair.0)),
        (kv_lengths, ints(|pair| pair.1)),
    ];
    let mut scratch =
        HostBuffer::zeroed(usize::try_from(executable.plan().workspace_bytes()).unwrap());
    let mut bindings = Bindings::new();
    for (id, memory) in &mut tensors {
        bindings.bind(*id, memory.buffer()).unwrap();
    }
    executable.execute(&bindings, Workspace::new(scratch.buffer()), Stream::HOST).unwrap();
    let words = tensors[3].1.as_bytes().chunks_exact(4);
    let words: Vec<f32> = words.map(|word| f32::from_ne_bytes(word.try_into().unwrap())).collect();
    let row = |row: &[f32]| (0..SKV).filter(|&j| row[j] != 0.0).collect();
    words.chunks(SQ * SKV).map(|rows| rows.chunks(SKV).map(row).collect()).collect()
}

/// Every corner and bound against every pair of lengths, dead rows and empty sequences included.
#[test]
fn one_hot_values_show_the_visible_keys() {
    let bounds = [None, Some(0), Some(1), Some(3), Some(20), Some(u32::MAX)];
    let mut bands = vec![None];
    for align in [Align::TopLeft, Align::BottomRight] {
        for left in bounds {
            bands.extend(bounds.map(|right| Some(Band { align, left, right })));
        }
    }
    for band in bands {
        for (&(len_q, len_kv), rows) in lengths().iter().zip(shown(band)) {
            for (i, seen) in rows.into_iter().enumerate() {
                let expected =
                    if i < len_q { visible(band, (len_q, len_kv), i) } else { BTreeSet::new() };
                assert_eq!(seen, expected, "{band:?} Lq={len_q} Lk={len_kv} i={i}");
            }
        }
    }
}
