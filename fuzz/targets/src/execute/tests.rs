//! Each check of an execute, seen red: what a right engine left behind is spoiled in one way.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use frazil::{DType, ErrorWord, Facts, Role};

use super::live::LiveSide;
use super::memory::POISON;
use super::values::for_each_element;
use super::{Bound, Trial};

/// What a wrong engine does, where the trial gives it occasion: changes memory or the error word.
type Fault = fn(&mut Trial, &mut Option<ErrorWord>) -> Option<()>;

fn output(trial: &mut Trial) -> &mut Bound {
    trial.tensors.iter_mut().find(|tensor| tensor.draft.name == "o").unwrap()
}

/// Places in the span of O that an element has, or has not.
fn places(tensor: &Bound, taken: bool) -> Vec<usize> {
    let mut places = vec![false; usize::try_from(tensor.geometry.span()).unwrap()];
    for_each_element(&tensor.geometry, &mut |_, at| places[at] = true);
    (0..places.len()).filter(|at| places[*at] == taken).collect()
}

fn write(tensor: &mut Bound, at: usize, value: f32) {
    let width = usize::try_from(tensor.draft.dtype.bytes()).unwrap();
    let bytes = match tensor.draft.dtype {
        DType::F16 => half::f16::from_f32(value).to_le_bytes().to_vec(),
        DType::Bf16 => half::bf16::from_f32(value).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    };
    tensor.memory.bytes_mut()[at * width..][..width].copy_from_slice(&bytes);
}

/// The place of an element of O, by row past the length of the first sequence.
fn dead_row(trial: &mut Trial) -> Option<usize> {
    let LiveSide::Padded(rows) = &trial.live.q else { return None };
    let len = rows.first()?.end;
    let (mut found, geometry) = (None, output(trial).geometry);
    for_each_element(&geometry, &mut |index, at| {
        if index[0] == 0 && index[2] >= len {
            found = Some(at);
        }
    });
    found
}

const FAULTS: [(&str, Fault); 10] = [
    ("bytes around `o` were written", |trial, _| output(trial).memory.spoil_outside()),
    ("is no live row's and was written", |trial, _| {
        let at = *places(output(trial), false).first()?;
        write(output(trial), at, 0.5);
        Some(())
    }),
    ("is no live row's and was written", |trial, _| {
        let LiveSide::Packed(rows) = &trial.live.q else { return None };
        let end = rows.iter().map(|rows| rows.end).max()?;
        let geometry = output(trial).geometry;
        let row = (geometry.extent(0) > end).then(|| end * geometry.stride(0))?;
        write(output(trial), usize::try_from(row).unwrap(), 0.5);
        Some(())
    }),
    ("was not written", |trial, _| {
        let owed = !matches!(trial.live.q, LiveSide::Packed(_));
        let at = places(output(trial), true).last().copied().filter(|_| owed)?;
        let width = usize::try_from(output(trial).draft.dtype.bytes()).unwrap();
        let element = &mut output(trial).memory.bytes_mut()[at * width..][..width];
        element.as_chunks_mut::<2>().0.fill(POISON);
        Some(())
    }),
    ("input `k` was written", |trial, _| {
        let mut tensors = trial.tensors.iter_mut();
        let k = tensors.find(|tensor| tensor.draft.name == "k").unwrap();
        *k.memory.bytes_mut().first_mut()? ^= 1;
        Some(())
    }),
    ("o is NaN", |trial, _| {
        let owed = trial.tame && matches!(trial.live.q, LiveSide::Dense);
        let at = places(output(trial), true).first().copied().filter(|_| owed)?;
        write(output(trial), at, f32::NAN);
        Some(())
    }),
    ("o is -0 past a length", |trial, _| {
        let at = dead_row(trial)?;
        write(output(trial), at, -0.0);
        Some(())
    }),
    ("error word", |_, word| {
        word.as_mut()?.0 ^= ErrorWord::Q_LENGTH.0;
        Some(())
    }),
    ("error word", |_, word| {
        word.as_mut()?.0 |= 1 << 20;
        Some(())
    }),
    ("an error word is there where one is needed", |_, word| {
        *word = match word {
            Some(_) => None,
            None => Some(ErrorWord::NONE),
        };
        Some(())
    }),
];

/// Inputs that differ in every choice.
fn inputs() -> impl Iterator<Item = Vec<u8>> {
    (1..400_u64).map(|seed| {
        let mut state = seed;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed | 1);
            state.to_be_bytes()[0]
        };
        (0..400).map(next).collect()
    })
}

#[test]
fn each_fault_is_seen() {
    let mut seen = [0; FAULTS.len()];
    for input in inputs() {
        for (count, (text, fault)) in seen.iter_mut().zip(FAULTS) {
            let Some(mut trial) = Trial::of(&input) else { continue };
            let mut word = trial.launch(0xFF);
            trial.judge(word);
            if *count >= 3 || fault(&mut trial, &mut word).is_none() {
                continue;
            }
            let judged = catch_unwind(AssertUnwindSafe(|| trial.judge(word)));
            let panic = judged.expect_err(text);
            let said = panic.downcast_ref::<String>().map_or("", String::as_str);
            assert!(said.contains(text), "{said}, not {text}");
            *count += 1;
        }
        if seen.iter().all(|count| *count >= 3) {
            return;
        }
    }
    panic!("no occasion for some fault: {seen:?}");
}

/// What of a trial the faults need not look at is drawn as well.
#[test]
fn trials_are_of_every_form() {
    let trials: Vec<Trial> = inputs().filter_map(|input| Trial::of(&input)).collect();
    let one_in = |most: usize, what: &str, holds: &dyn Fn(&Trial) -> bool| {
        let count = trials.iter().filter(|trial| holds(trial)).count();
        assert!(count * most >= trials.len(), "{what}: {count} of {}", trials.len());
    };
    let share = |what: &str, holds: &dyn Fn(&Trial) -> bool| one_in(20, what, holds);
    share("overrides", &|trial| trial.overridden);
    share("several threads", &|trial| !trial.on_one_thread);
    share("tame numbers", &|trial| trial.tame);
    share("pages", &|trial| matches!(trial.live.kv, LiveSide::Paged(_)));
    share("packed queries", &|trial| matches!(trial.live.q, LiveSide::Packed(_)));
    share("bits that must be set", &|trial| trial.live.must != ErrorWord::NONE);
    share("pages outside", &|trial| trial.live.may != ErrorWord::NONE);
    // The host's engine takes so many in pieces.
    one_in(100, "many keys", &|trial| match trial.executable.plan().facts() {
        Facts::SdpaFwd(sdpa) => sdpa.shape().kv.max_len >= 1024,
        _ => false,
    });
    share("a sink", &|trial| trial.roles.iter().any(|(role, _)| *role == Role::Sink));
}
