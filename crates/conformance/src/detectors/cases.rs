//! Cases as what detectors call: two that differ in what is on the device alone.

use std::sync::Arc;

use frazil_core::{ErrorWord, Facts, Geometry, TensorId};

use super::{Results, Sample};
use crate::case::Case;
use crate::compare::compare;
use crate::declare::{CaseError, Declared, declare};
use crate::expected::Reference;
use crate::image::{GUARD_BYTES, POISON, fill};
use crate::instance::Instance;
use crate::live::word_names;

/// Two calls of one graph, each judged by the f64 reference.
pub struct CaseCalls {
    declared: Declared,
    calls: [Call; 2],
}

type Judge = Box<dyn Fn(&Results) -> Result<(), String> + Sync>;

struct Call {
    inputs: Vec<(TensorId, Vec<u8>)>,
    judge: Judge,
}

impl CaseCalls {
    /// Draws the inputs of both cases, and computes what must come of them.
    ///
    /// # Errors
    ///
    /// [`CaseError`] where a case means nothing, where the two are not of one graph with the same
    /// extents, and where a tensor does not begin a buffer of its own.
    pub fn new(cases: [Case; 2]) -> Result<Self, CaseError> {
        let [declared, other] = [declare(&cases[0])?, declare(&cases[1])?];
        let geometries =
            |it: &Declared| it.tensors.iter().map(|it| it.geometry).collect::<Vec<_>>();
        if declared.facts != other.facts || geometries(&declared) != geometries(&other) {
            let [a, b] = cases.each_ref().map(|case| &case.name);
            return Err(CaseError::Case(format!("{a} and {b} are not calls of one graph")));
        }
        let [first, second] = cases;
        let calls = [Call::new(first, &declared)?, Call::new(second, &other)?];
        Ok(Self { declared, calls })
    }

    /// The facts of the graph.
    pub fn facts(&self) -> &Arc<Facts> {
        &self.declared.facts
    }

    /// Tensors that the calls bind with other extents and strides than declared.
    pub fn overrides(&self) -> Vec<(TensorId, Geometry)> {
        let overridden = self.declared.tensors.iter().filter(|tensor| tensor.overridden);
        overridden.map(|tensor| (tensor.id, tensor.geometry)).collect()
    }

    /// The calls.
    pub fn samples(&self) -> [Sample<'_>; 2] {
        self.calls
            .each_ref()
            .map(|call| Sample { inputs: call.inputs.clone(), judge: &*call.judge })
    }
}

impl Call {
    fn new(case: Case, declared: &Declared) -> Result<Self, CaseError> {
        let is_alone = declared.tensors.iter().all(|tensor| {
            let others = declared.tensors.iter().filter(|other| other.buffer == tensor.buffer);
            tensor.offset_bytes == 0 && others.count() == 1
        });
        if !is_alone {
            let text = format!("{}: detectors bind every tensor to a buffer of its own", case.name);
            return Err(CaseError::Case(text));
        }
        let mut instance = Instance::new(&case, declared)?;
        let reference = Reference::compute(&case, declared, &instance)?;
        let mut inputs = Vec::new();
        for placed in &instance.tensors {
            let bytes = &mut instance.images[placed.image].bytes;
            let body = GUARD_BYTES..bytes.len() - GUARD_BYTES;
            if placed.tensor.role.is_output() {
                // As detectors leave it before a call: no byte of it is spared.
                fill(&mut bytes[body], POISON);
            } else {
                inputs.push((placed.tensor.id, bytes[body].to_vec()));
            }
        }
        let judge = Box::new(move |results: &Results| judge(&case, &instance, &reference, results));
        Ok(Self { inputs, judge })
    }
}

/// Says what of the outputs is not what the reference says, which bytes of them were to be left
/// alone, and whether the error word is another one.
fn judge(
    case: &Case,
    instance: &Instance,
    reference: &Reference,
    results: &Results,
) -> Result<(), String> {
    let mut images: Vec<Vec<u8>> =
        instance.images.iter().map(|image| image.bytes.clone()).collect();
    for (id, bytes) in &results.outputs {
        let placed = instance.tensors.iter().find(|placed| placed.tensor.id == *id);
        let placed = placed.ok_or_else(|| format!("{}: no tensor {id}", case.name))?;
        images[placed.image][GUARD_BYTES..][..bytes.len()].copy_from_slice(bytes);
    }
    let mut wrong = compare(case, instance, reference, &mut images).wrong;
    let want = instance.live.error_word;
    if results.error_word.unwrap_or(ErrorWord::NONE) != want {
        let found = results.error_word.map_or_else(|| "is not there".to_owned(), word_names);
        wrong.push(format!("error word {found}, want {}", word_names(want)));
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("{}: {}", case.name, wrong.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::CaseFile;

    fn calls(cases: [&str; 2]) -> Result<CaseCalls, CaseError> {
        let text = cases.iter().enumerate().map(|(at, lines)| {
            format!(
                "[[case]]\nname = \"c{at}\"\ndtype = \"f16\"\nnum_q_heads = 1\nnum_kv_heads = 1\n\
                 head_dim_qk = 8\nbatch = 1\nseqlen_kv = 3\n{lines}\n"
            )
        });
        let file = CaseFile::parse(&text.collect::<String>()).unwrap();
        CaseCalls::new(file.cases.try_into().unwrap())
    }

    /// What the first call says of outputs that nobody has written, and of an error word.
    fn said(calls: &CaseCalls, error_word: Option<ErrorWord>) -> Result<(), String> {
        let outputs = calls.declared.tensors.iter().filter(|tensor| tensor.role.is_output());
        let poisoned = outputs.map(|tensor| {
            let bytes = tensor.geometry.span() * tensor.dtype.bytes();
            let mut bytes = vec![0; usize::try_from(bytes).unwrap()];
            fill(&mut bytes, POISON);
            (tensor.id, bytes)
        });
        let results = Results { outputs: poisoned.collect(), regions: Vec::new(), error_word };
        (calls.samples()[0].judge)(&results)
    }

    #[test]
    fn outputs_that_nobody_has_written_are_wrong_and_so_is_another_error_word() {
        let one_row = calls(["seqlen_q = 1", "seqlen_q = 1\nseed = 2"]).unwrap();
        let wrong = said(&one_row, None).unwrap_err();
        assert!(wrong.contains("o[b=0,h=0,i=0,d=0]"), "{wrong}");
        let no_row = calls(["seqlen_q = 0", "seqlen_q = 0"]).unwrap();
        assert_eq!(said(&no_row, None), Ok(()));
        assert_eq!(said(&no_row, Some(ErrorWord::NONE)), Ok(()));
        let wrong = said(&no_row, Some(ErrorWord::KV_LENGTH)).unwrap_err();
        assert!(wrong.contains("error word kv_length, want no bit"), "{wrong}");
    }

    #[test]
    fn calls_of_two_graphs_are_refused_and_so_is_a_shared_buffer() {
        let refused = |cases| calls(cases).err().unwrap().to_string();
        let text = refused(["seqlen_q = 1", "seqlen_q = 2"]);
        assert!(text.contains("c0 and c1 are not calls of one graph"), "{text}");
        let shared = "seqlen_q = 1\nplace.k = { buffer = \"kv\" }\nplace.v = { buffer = \"kv\", offset = 24 }";
        let text = refused([shared, shared]);
        assert!(text.contains("a buffer of its own"), "{text}");
    }
}
