//! `frazil run`: tensors in, an answer and its error out.

mod comparison;
mod execute;
mod judge;
mod problem;
mod repeat;
mod report;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use frazil::{DType, Device, Router};
use frazil_conformance::run::panic_text;
use safetensors::{Dtype, tensor::TensorView};

use crate::args::{self, FloatType};
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::input::{Input, Tensor};
use crate::output::Output;
use crate::select;
use execute::Answer;
use problem::{Modifiers, Problem};
use repeat::Repeat;
use report::Report;

pub(crate) fn run(args: &args::Run, out: &mut Output) -> Result<Outcome, Failure> {
    let modifiers = Modifiers::of(&args.scores)?;
    let router = select::router(args.engine.as_deref())?;
    let dtype = args.dtype.map(|dtype| match dtype {
        FloatType::F16 => DType::F16,
        FloatType::Bf16 => DType::Bf16,
        FloatType::F32 => DType::F32,
    });
    if let Some(output) = &args.output {
        check_output(output, &args.files)?;
    }
    // Everything is read and checked before anything runs or is written; a second reading is
    // cheaper than holding all files at once.
    for path in &args.files {
        Problem::declare(&Input::read(path, dtype)?, &modifiers)?;
    }
    let device = frazil::cpu::host();
    let mut outcome = Outcome::Right;
    for path in &args.files {
        let mut input = Input::read(path, dtype)?;
        let problem = Problem::declare(&input, &modifiers)?;
        let answer = match answer(&router, &device, (&mut input, &problem), args.repeat.get()) {
            Err(Failure::Declined(why)) => {
                declined(path, &why, out)?;
                outcome.or_worse(Outcome::Declined);
                continue;
            }
            Err(Failure::Fault(what)) => {
                let repeat = Repeat::new(args, path, None);
                return Err(Failure::Fault(format!("{what}\n  repeat     {repeat}")));
            }
            answer => answer?,
        };
        let comparisons =
            if args.no_compare { Vec::new() } else { judge::judge(&input, &problem, &answer) };
        let mut report = Report::new(&input, &problem, &answer, &comparisons);
        if report.outcome() != Outcome::Right {
            let engine = answer.plan.engine.as_str();
            report.repeat_with(Repeat::new(args, path, Some(engine)));
        }
        report.write(out, args.repeat.get())?;
        outcome.or_worse(report.outcome());
        if let Some(output) = &args.output {
            write_answer(output, &answer).map_err(|what| {
                Failure::Fault(format!("{}: cannot be written: {what}", output.display()))
            })?;
        }
    }
    Ok(outcome)
}

/// The answer of the best plan. An engine that panics is at fault as one that fails is.
fn answer(
    router: &Router,
    device: &Device,
    (input, problem): (&mut Input, &Problem),
    repeat: u32,
) -> Result<Answer, Failure> {
    let path = input.path.clone();
    catch_unwind(AssertUnwindSafe(|| execute::answer(router, device, input, problem, repeat)))
        .unwrap_or_else(|panic| {
            let what = panic_text(panic.as_ref());
            Err(Failure::Fault(format!("{}: an engine panicked: {what}", path.display())))
        })
}

fn declined(path: &Path, why: &str, out: &mut Output) -> Result<(), Failure> {
    if out.json {
        let file = path.to_string_lossy();
        return out
            .object(&serde_json::json!({ "file": file, "status": "declined", "reason": why }));
    }
    eprintln(&format!("{}: {why}", path.display()));
    Ok(())
}

/// To standard error; nobody can be told that it is closed.
fn eprintln(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "frazil: {text}");
}

/// One output for one input, which it must not replace.
fn check_output(output: &Path, inputs: &[std::path::PathBuf]) -> Result<(), Failure> {
    let [file] = inputs else {
        let what = format!("--output takes the answer to one file, {} are given", inputs.len());
        return Err(Failure::Input(what));
    };
    if files::are_same(output, file) {
        return Err(Failure::in_file(output, "is the input; --output would replace it"));
    }
    Ok(())
}

fn write_answer(path: &Path, answer: &Answer) -> Result<(), String> {
    let view = |tensor| view(tensor).map_err(|error| error.to_string());
    let tensors = [("o", view(&answer.o)?), ("lse", view(&answer.lse)?)];
    let metadata = HashMap::from([("plan".to_owned(), answer.plan.to_string())]);
    let bytes =
        safetensors::serialize(tensors, Some(metadata)).map_err(|error| error.to_string())?;
    files::write(path, &bytes).map_err(|error| error.to_string())
}

fn view(tensor: &Tensor) -> Result<TensorView<'_>, safetensors::SafeTensorError> {
    let dtype = match tensor.dtype {
        DType::F16 => Dtype::F16,
        DType::Bf16 => Dtype::BF16,
        _ => Dtype::F32,
    };
    TensorView::new(dtype, tensor.shape.clone(), tensor.bytes.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use frazil::{
        BuildError, Candidate, Compiled, Config, Engine, EngineId, Facts, FeatureSet, Launch,
        Launches, Layout, Maturity, Plan, RegisteredEngine, Support, Target, Unsupported,
    };
    use frazil_conformance::cargo_path;

    use super::*;

    /// Panics when asked, or when built.
    #[derive(Debug)]
    struct Panics {
        when_asked: bool,
    }

    impl Engine for Panics {
        fn check_support(&self, _: &Facts, _: &Target) -> Result<Support, Unsupported> {
            assert!(!self.when_asked, "asked too much");
            Ok(Support::one(Candidate {
                config: Config::default(),
                workspace: Layout::new(),
                launches: Launches::Own(Vec::new()),
                error_word: None,
                overrides: None,
            }))
        }

        fn compile(&self, _: &Plan) -> Result<Vec<Compiled>, BuildError> {
            Ok(Vec::new())
        }

        fn build(&self, _: &Plan, _: &Device) -> Result<Box<dyn Launch>, BuildError> {
            panic!("built too much")
        }
    }

    #[test]
    fn an_engine_that_panics_is_a_fault() {
        let data = cargo_path!("CARGO_MANIFEST_DIR").join("../../data/minilm");
        let mut input = Input::read(&data.join("layer0.safetensors"), None).unwrap();
        let scores = args::Scores::default();
        let problem = Problem::declare(&input, &Modifiers::of(&scores).unwrap()).unwrap();
        for (when_asked, text) in [(true, "asked too much"), (false, "built too much")] {
            let features = FeatureSet::of(frazil::Feature::ALL);
            let engine = RegisteredEngine::new(
                EngineId::new("test/sdpa_fwd_panics"),
                features,
                Maturity::Simulated,
                env!("CARGO_CRATE_NAME"),
                Arc::new(Panics { when_asked }),
            );
            let router = Router::over([engine]).unwrap();
            let device = frazil::cpu::host();
            match answer(&router, &device, (&mut input, &problem), 1) {
                Err(Failure::Fault(what)) => {
                    assert!(what.ends_with(&format!("an engine panicked: {text}")), "{what}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
