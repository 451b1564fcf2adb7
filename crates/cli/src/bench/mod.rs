//! `frazil bench`: times, against what the device can do, what peers do and what is right.

mod args;
mod cell;
mod check;
mod date;
mod device;
mod host;
mod inputs;
mod measure;
mod peers;
mod plot;
mod preset;
mod progress;
mod row;
mod run;
mod stats;
mod store;
mod table;
mod trial;
mod work;

use std::io::{self, Write};
use std::path::Path;

use frazil::DType;

use crate::args::{DeviceName, FloatType};
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::select::{self, Judged};
pub(crate) use args::Bench;
use args::Command;
use cell::Cell;
use device::BenchDevice;
use host::Host;
use measure::Rounds;
use peers::Peers;
use run::Session;
use store::{Known, Store};

pub(crate) fn bench(args: &Bench, out: &mut Output) -> Result<Outcome, Failure> {
    if let Some(Command::Plot(args)) = &args.command {
        return plot_files(args, out);
    }
    let cells = cells(args)?;
    if args.list {
        return list(args, &cells, out);
    }
    // A name that means nothing is told before anything is read.
    select::router(args.engine.as_deref())?;
    let mut peers = Peers::read(&args.peers)?;
    if let Some(folder) = &args.plot {
        plot::folder(folder)?;
    }
    // Last, so that no file is begun where an argument means nothing.
    let (mut store, before) = match &args.csv {
        Some(path) => Store::open(path).map(|(store, rows)| (Some(store), rows))?,
        None => (None, Vec::new()),
    };
    if let Some(store) = store.as_mut().filter(|_| args.resume) {
        store.known = Known::of(&before);
    }
    let rounds = Rounds { rounds: args.rounds, budget: args.time_budget, cache: args.cache };
    let (mut outcome, mut rows) = (Outcome::Right, before);
    for name in &args.device {
        let mut device: Box<dyn BenchDevice> = match name {
            DeviceName::Host => Box::new(Host::open()),
        };
        let judged = Judged::on(device.device().target(), args.engine.as_deref())?;
        let mut session = Session::new(args, judged, rounds, &mut peers);
        let done = session.run(&cells, device.as_mut(), store.as_mut(), out)?;
        rows.extend(done.rows);
        outcome.or_worse(done.outcome);
    }
    if let Some(text) = peers.unmet() {
        say(&text);
    }
    if let Some(folder) = &args.plot {
        rows.extend(peers.into_rows());
        match plot::draw(folder, &rows)? {
            0 => say(NOTHING_DRAWN),
            drawn => say(&drawings(drawn, folder)),
        }
    }
    Ok(outcome)
}

/// The cells asked for.
fn cells(args: &Bench) -> Result<Vec<Cell>, Failure> {
    let mut cells = preset::select(&args.presets())?;
    if let Some(filter) = &args.filter {
        let all = cells.len();
        cells.retain(|cell| cell.config.contains(filter.as_str()));
        if cells.is_empty() {
            let what = format!("--filter: no name of {all} cells contains `{filter}`");
            return Err(Failure::Input(what));
        }
    }
    if let Some(dtype) = args.dtype {
        let dtype = match dtype {
            FloatType::F16 => DType::F16,
            FloatType::Bf16 => DType::Bf16,
            FloatType::F32 => DType::F32,
        };
        cells.iter_mut().for_each(|cell| cell.dtype = dtype);
    }
    Ok(cells)
}

/// `--list`: presets, or the cells of those that are named.
fn list(args: &Bench, cells: &[Cell], out: &mut Output) -> Result<Outcome, Failure> {
    if args.names_cells() {
        for cell in cells {
            if out.json {
                out.object(&serde_json::json!({ "config": cell.config, "model": cell.model }))?;
            } else {
                writeln!(out, "{}", cell.config)?;
            }
        }
        return Ok(Outcome::Right);
    }
    for preset in preset::all() {
        let (groups, count) = (preset.group_names(), preset.cells(None).len());
        if out.json {
            let (name, about, source) = (preset.name, &preset.about, &preset.source);
            out.object(&serde_json::json!({
                "preset": name, "about": about, "source": source, "groups": groups, "cells": count
            }))?;
        } else {
            writeln!(out, "{:12} {}", preset.name, preset.about)?;
            writeln!(out, "{:12} {count} cells: {}", "", groups.join(", "))?;
        }
    }
    Ok(Outcome::Right)
}

/// `frazil bench plot`.
fn plot_files(args: &args::Plot, out: &mut Output) -> Result<Outcome, Failure> {
    let mut rows = Vec::new();
    for file in args.files.iter().chain(&args.peers) {
        rows.extend(store::read(file)?);
    }
    plot::folder(&args.to)?;
    match plot::draw(&args.to, &rows)? {
        0 => Err(Failure::Declined(NOTHING_DRAWN.into())),
        drawn => {
            writeln!(out, "{}", drawings(drawn, &args.to))?;
            Ok(Outcome::Right)
        }
    }
}

const NOTHING_DRAWN: &str = "no row has a time, so nothing is drawn";

fn drawings(count: usize, folder: &Path) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} drawing{plural} in {}", folder.display())
}

/// To standard error; nobody can be told that it is closed.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "frazil: {text}");
}
