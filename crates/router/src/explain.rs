//! Every engine's answer, as data and as text.

use std::fmt;

use frazil_core::{EngineId, Launches, Maturity, Plan, Unsupported};

use crate::rank;

/// What one engine said.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Answer {
    /// It serves the graph with these plans, best first.
    Served(Vec<Plan>),
    /// It does not.
    Declined(Unsupported),
    /// It was not asked: a filter of the router leaves it out.
    LeftOut,
}

/// Every engine's answer about one graph on one target, those that serve it first, in rank order.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The device asked about.
    pub target: String,
    /// Engine, maturity and answer.
    pub answers: Vec<(EngineId, Maturity, Answer)>,
}

impl Explanation {
    /// Engines that serve the graph, best first.
    pub fn serving(&self) -> impl Iterator<Item = (&EngineId, &[Plan])> {
        self.answers.iter().filter_map(|(id, _, answer)| match answer {
            Answer::Served(plans) => Some((id, plans.as_slice())),
            _ => None,
        })
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "target: {}", self.target)?;
        for (at, (id, maturity, answer)) in self.answers.iter().enumerate() {
            match answer {
                Answer::Served(plans) => {
                    writeln!(f, "{:>3}. {id}: served, {maturity}", at + 1)?;
                    plans.iter().try_for_each(|plan| write_plan(f, plan))?;
                }
                Answer::Declined(why) => {
                    writeln!(f, "  -  {id}: declined ({}): {why}", why.kind())?
                }
                Answer::LeftOut => writeln!(f, "  -  {id}: left out by a filter")?,
            }
        }
        Ok(())
    }
}

fn write_plan(f: &mut fmt::Formatter<'_>, plan: &Plan) -> fmt::Result {
    let rank = match rank::row(plan.engine(), plan.facts(), plan.target()) {
        Some(row) => row.measured.unwrap_or("unmeasured"),
        None => "no row",
    };
    writeln!(f, "       config     {}", plan.config())?;
    writeln!(f, "       rank row   {rank}")?;
    writeln!(f, "       workspace  {} bytes", plan.workspace_bytes())?;
    match plan.launches() {
        Launches::Own(names) => writeln!(f, "       launches   {}", names.join(", ")),
        Launches::Foreign { setup } => {
            writeln!(f, "       launches   {} then the library's own", setup.join(", "))
        }
        _ => Ok(()),
    }
}
