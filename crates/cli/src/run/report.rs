//! What is said of one file.

use std::borrow::Cow;
use std::io::Write;

use frazil::{Band, PlanName};
use serde::Serialize;

use super::comparison::{Comparison, NOT_COMPARED};
use super::execute::Answer;
use super::problem::Problem;
use super::repeat::Repeat;
use crate::failure::{Failure, Outcome};
use crate::input::{Input, Tensor};
use crate::output::{Output, Tone};

/// One file and the answer to it, as one JSON object.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    /// Path; what of it is not UTF-8 is replaced, as JSON has no other text.
    file: Cow<'a, str>,
    status: &'static str,
    engine: String,
    config: String,
    tensors: Vec<Shape>,
    sequences: usize,
    q_lengths: (usize, usize),
    kv_lengths: (usize, usize),
    softmax_scale: f32,
    band: Option<Band>,
    soft_cap: Option<f32>,
    comparisons: &'a [Comparison],
    error_word: u32,
    seconds: f64,
    gflop_per_s: f64,
    rows_per_s: f64,
    /// The line that runs the file again, where the answer is not right, and the file's checksum.
    #[serde(skip_serializing_if = "Option::is_none")]
    repro: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cksum: Option<String>,
}

/// Type and extents of a tensor.
#[derive(Serialize)]
struct Shape {
    name: &'static str,
    dtype: &'static str,
    shape: Vec<usize>,
}

/// Pairs of query and key that see one another, and live rows, over all heads.
fn work(input: &Input, problem: &Problem) -> (f64, f64) {
    let num_heads = input.q.shape[1] as f64;
    let (mut pairs, mut rows) = (0, 0);
    let batch = if problem.lse.contains(&0) { 0 } else { input.q_side.batch };
    for seq in 0..batch {
        let (len_q, len_kv) = (input.q_side.sequence(seq).1, input.kv_side.sequence(seq).1);
        rows += len_q;
        pairs += (0..len_q).map(|row| problem.visible(len_q, len_kv, row).len()).sum::<usize>();
    }
    (pairs as f64 * num_heads, rows as f64 * num_heads)
}

impl<'a> Report<'a> {
    pub(super) fn new(
        input: &'a Input,
        problem: &Problem,
        answer: &Answer,
        comparisons: &'a [Comparison],
    ) -> Self {
        let columns = |tensor: &Tensor| tensor.shape[tensor.shape.len() - 1] as f64;
        let (pairs, rows) = work(input, problem);
        // A multiplication and an addition for each column of both products.
        let flop = 2.0 * pairs * (columns(&input.q) + columns(&input.v));
        let seconds = answer.time.as_secs_f64().max(1e-9);
        let shape = |name, tensor: &Tensor| Shape {
            name,
            dtype: tensor.dtype.name(),
            shape: tensor.shape.clone(),
        };
        let any = |status| comparisons.iter().any(|c| c.held && c.status == status);
        let PlanName { engine, config } = &answer.plan;
        Self {
            file: input.path.to_string_lossy(),
            status: if any("wrong") || answer.error_word != 0 {
                "wrong"
            } else if any(NOT_COMPARED) || comparisons.is_empty() {
                NOT_COMPARED
            } else {
                "right"
            },
            engine: engine.to_string(),
            config: config.to_string(),
            tensors: vec![
                shape("q", &input.q),
                shape("k", &input.k),
                shape("v", &input.v),
                shape("o", &answer.o),
                shape("lse", &answer.lse),
            ],
            sequences: input.q_side.batch,
            q_lengths: input.q_side.length_range(),
            kv_lengths: input.kv_side.length_range(),
            softmax_scale: problem.softmax_scale,
            band: problem.band,
            soft_cap: problem.soft_cap,
            comparisons,
            error_word: answer.error_word,
            seconds,
            gflop_per_s: flop / seconds / 1e9,
            rows_per_s: rows / seconds,
            repro: None,
            cksum: None,
        }
    }

    pub(super) fn repeat_with(&mut self, Repeat { line, cksum }: Repeat) {
        (self.repro, self.cksum) = (Some(line), cksum);
    }

    pub(super) fn outcome(&self) -> Outcome {
        match self.status {
            "wrong" => Outcome::Wrong,
            // Without comparisons that was asked for.
            NOT_COMPARED if !self.comparisons.is_empty() => Outcome::Unjudged,
            _ => Outcome::Right,
        }
    }

    pub(super) fn write(&self, out: &mut Output, repeat: u32) -> Result<(), Failure> {
        if out.json {
            return out.object(self);
        }
        writeln!(out, "{}", self.file)?;
        writeln!(out, "  engine     {} [{}]", self.engine, self.config)?;
        for Shape { name, dtype, shape } in &self.tensors {
            writeln!(out, "  {name:<10} {dtype} {shape:?}")?;
        }
        let range = |(least, most): (usize, usize)| {
            if least == most { least.to_string() } else { format!("{least} to {most}") }
        };
        let (q, kv) = (range(self.q_lengths), range(self.kv_lengths));
        writeln!(out, "  sequences  {}, rows of q {q}, of k and v {kv}", self.sequences)?;
        write!(out, "  scores     scale {}", self.softmax_scale)?;
        if let Some(Band { align, left, right }) = self.band {
            let side = |bound: Option<u32>| bound.map_or("all".into(), |bound| bound.to_string());
            let (left, right) = (side(left), side(right));
            write!(out, ", band {align:?}, keys to the left {left}, to the right {right}")?;
        }
        if let Some(cap) = self.soft_cap {
            write!(out, ", soft cap {cap}")?;
        }
        writeln!(out)?;
        self.comparisons.iter().try_for_each(|comparison| write_comparison(out, comparison))?;
        if self.comparisons.is_empty() {
            writeln!(out, "  compared   with nothing")?;
        }
        if self.error_word != 0 {
            let word = out.paint(Tone::Bad, format!("{:#x}", self.error_word));
            writeln!(
                out,
                "  error word {word}: the engine found lengths that the file does not have"
            )?;
        }
        let milliseconds = self.seconds * 1e3;
        writeln!(
            out,
            "  time       {milliseconds:.3} ms, best of {repeat}: {:.2} GFLOP/s, {:.0} rows/s",
            self.gflop_per_s, self.rows_per_s
        )?;
        if let Some(line) = self.repro.clone() {
            writeln!(out, "  repeat     {}", Repeat { line, cksum: self.cksum.clone() })?;
        }
        Ok(())
    }
}

fn write_comparison(out: &mut Output, comparison: &Comparison) -> Result<(), Failure> {
    let Comparison { tensor, against, status, max_err, tol, num_nan, .. } = comparison;
    if let Some(reason) = &comparison.reason {
        writeln!(out, "  {:<10} {reason}: {status}", against)?;
        return Ok(());
    }
    let verdict = match *status {
        "right" => out.paint(Tone::Good, "right"),
        "wrong" => out.paint(Tone::Bad, "WRONG"),
        "off" => out.paint(Tone::Faint, "off, as the inputs were rounded,"),
        // Of no use to whoever asked, whatever the cause.
        other => out.paint(Tone::Bad, other),
    };
    write!(out, "  {:<10} {verdict} against {against}: ", format!("{tensor} is"))?;
    if *status == NOT_COMPARED {
        writeln!(out, "NaN or Inf in the input reaches every element")?;
        return Ok(());
    }
    write!(out, "error {max_err:.3e} of {tol:.3e} allowed, {num_nan} NaN")?;
    if comparison.num_excused != 0 {
        write!(out, ", {} not compared: NaN or Inf in the input", comparison.num_excused)?;
    }
    if let Some(first) = &comparison.first_bad {
        write!(out, "; {} outside, first at {first:?}", comparison.num_bad)?;
    }
    writeln!(out)?;
    Ok(())
}
