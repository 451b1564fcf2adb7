//! The table as Markdown.

use std::fmt::Write;

use super::{EngineAnswers, OnTarget, Probe, Said, SupportTable};

impl SupportTable {
    /// Where each engine serves how much, and what it serves where it serves most.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        let targets = self.engines.first().map_or(&[][..], |engine| engine.targets.as_slice());
        let names: Vec<String> = targets.iter().map(|target| target.name.to_owned()).collect();
        row(&mut text, ["engine", "maturity"].map(String::from).into_iter().chain(names));
        line(&mut text, targets.len() + 2);
        for engine in &self.engines {
            let counts = engine.targets.iter().map(|target| match target.num_served() {
                0 => kind(&target.answers[0]),
                served => format!("{served} of {}", self.probes.len()),
            });
            let head = [format!("`{}`", engine.id), engine.maturity.to_string()];
            row(&mut text, head.into_iter().chain(counts));
        }
        text.push('\n');
        let homes = || self.engines.iter().filter_map(|engine| Some((engine, engine.home()?)));
        let heads = homes().map(|(engine, home)| format!("`{}` on {}", engine.id, home.name));
        row(&mut text, std::iter::once(String::new()).chain(heads));
        line(&mut text, self.engines.len() + 1);
        for group in self.groups() {
            let cells = homes().map(|(_, home)| self.of_group(group, home));
            row(&mut text, std::iter::once(group.to_owned()).chain(cells));
        }
        text
    }

    /// Headings, each once.
    fn groups(&self) -> Vec<&'static str> {
        let mut groups: Vec<_> = self.probes.iter().map(|probe| probe.group).collect();
        groups.dedup();
        groups
    }

    /// What is served of a group; then the rest, with the kinds of the declines.
    fn of_group(&self, group: &str, target: &OnTarget) -> String {
        let mut text = String::new();
        let (mut served, mut declined) = (Vec::new(), Vec::new());
        for (probe, said) in self.answers(target).filter(|(probe, _)| probe.group == group) {
            match said {
                Ok(()) => served.push(probe.name.to_owned()),
                Err(_) => declined.push(format!("{} ({})", probe.name, kind(said))),
            }
        }
        text.push_str(&served.join(" · "));
        if !declined.is_empty() {
            let gap = if served.is_empty() { "" } else { "; " };
            let _ = write!(text, "{gap}not {}", declined.join(", "));
        }
        text
    }

    fn answers<'a>(&'a self, target: &'a OnTarget) -> impl Iterator<Item = (&'a Probe, &'a Said)> {
        self.probes.iter().zip(&target.answers)
    }

    /// Every answer, with the reason of each decline.
    pub fn full(&self) -> String {
        let mut text = String::new();
        for (at, engine) in self.engines.iter().enumerate() {
            let gap = if at == 0 { "" } else { "\n" };
            let _ = write!(text, "{gap}## {}\n\n", engine.id);
            let _ = writeln!(text, "Crate `{}`; {}.", engine.package, engine.maturity);
            let elsewhere = engine.targets.iter().filter(|target| target.num_served() == 0);
            for (at, target) in elsewhere.enumerate() {
                let gap = if at == 0 { "\nNothing is served on\n\n" } else { "" };
                let _ = writeln!(text, "{gap}- {}: {}", target.name, reason(&target.answers[0]));
            }
            self.write_engine(engine, &mut text);
        }
        text
    }

    fn write_engine(&self, engine: &EngineAnswers, text: &mut String) {
        let at_home: Vec<_> = engine.targets.iter().filter(|at| at.num_served() > 0).collect();
        if at_home.is_empty() {
            return;
        }
        text.push('\n');
        let names = at_home.iter().map(|target| target.name.to_owned());
        row(text, ["", ""].map(String::from).into_iter().chain(names));
        line(text, at_home.len() + 2);
        let mut group = "";
        for (at, probe) in self.probes.iter().enumerate() {
            let heading = if probe.group == group { "" } else { probe.group };
            group = probe.group;
            let cells = at_home.iter().map(|target| reason(&target.answers[at]));
            let head = [heading, probe.name].map(String::from);
            row(text, head.into_iter().chain(cells));
        }
    }
}

fn kind(said: &Said) -> String {
    said.as_ref().map_or_else(|why| format!("`{}`", why.kind()), |()| "yes".into())
}

fn reason(said: &Said) -> String {
    said.as_ref().map_or_else(|why| format!("`{}`: {why}", why.kind()), |()| "yes".into())
}

fn row(text: &mut String, cells: impl IntoIterator<Item = String>) {
    text.push('|');
    for cell in cells {
        let gap = if cell.is_empty() { "" } else { " " };
        // A bar would end the cell.
        let _ = write!(text, "{gap}{} |", cell.replace('|', "\\|"));
    }
    text.push('\n');
}

/// The line under the headings.
fn line(text: &mut String, columns: usize) {
    let _ = writeln!(text, "|{}", "---|".repeat(columns));
}
