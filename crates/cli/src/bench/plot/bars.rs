//! Bars side by side: cells that have no axis of lengths.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::canvas::{
    DrawError, GRID, INK, LEGEND, Name, WIDTH, anchored, colour, height, paper, plain, text, width,
};
use super::{Group, heads, mask_name};
use crate::bench::cell::Mask;
use crate::bench::row::Row;

/// Height of a bar and of the gap between two cells, in pixels.
const BAR: u32 = 22;
const GAP: u32 = 14;

/// Least height of all bars together.
const LEAST: u32 = 72;

/// Sizes of the text of cells and of bars.
const LABEL: i32 = 13;
const VALUE: i32 = 12;

/// A cell with the bars of its engines: place of the engine, rate, text.
struct Cell {
    label: String,
    bars: Vec<(usize, f64, String)>,
}

pub(super) fn draw(group: &Group<'_>) -> Result<String, DrawError> {
    let engines = group.engines();
    let fastest = group.rows.iter().filter_map(|row| Some(row.rate()?.0)).fold(0.0, f64::max);
    let unit = group.rows.iter().find_map(|row| Some(row.rate()?.1)).unwrap_or_default();
    let (unit, factor) = match unit {
        "TFLOP/s" if fastest < 1.0 => ("GFLOP/s", 1e3),
        unit => (unit, 1.0),
    };
    let cells = cells(group, factor);
    let heights = cells.iter().map(|cell| GAP + cell.bars.iter().map(|_| BAR).sum::<u32>());
    let pixels = heights.sum::<u32>().max(LEAST);
    let name = |(at, (name, _, _)): (usize, &(&str, bool, Vec<&Row>))| Name {
        text: (*name).to_owned(),
        colour: colour(at),
        stroke: 0,
    };
    let names: Vec<Name> = engines.iter().enumerate().map(name).collect();
    let mut svg = String::new();
    {
        let size = (WIDTH, height(pixels + 130, names.len()));
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let area = paper(&root, (&group.title, &group.subtitle()), &names)?;
        let top = f64::from(pixels);
        let labels = label_width(&cells);
        let mut chart = ChartBuilder::on(&area)
            .margin_right(8)
            .margin_bottom(8)
            .x_label_area_size(46)
            .y_label_area_size(labels)
            .build_cartesian_2d(
                0.0..longest(&cells, f64::from(WIDTH - LEGEND - labels)),
                0.0..top,
            )?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(INK)
            .x_desc(unit)
            .y_labels(0)
            .x_labels(6)
            .x_label_formatter(&|rate| format!("{rate}"))
            .label_style(text(13))
            .axis_desc_style(text(14))
            .draw()?;
        let mut y = top - f64::from(GAP) / 2.0;
        for cell in &cells {
            let height = f64::from(BAR) * cell.bars.len() as f64;
            let label = anchored(LABEL, HPos::Right, VPos::Center);
            chart.draw_series([EmptyElement::at((0.0, y - height / 2.0))
                + Text::new(cell.label.clone(), (-8, 0), label)])?;
            for (engine, rate, text) in &cell.bars {
                let ends = [(0.0, y - 2.0), (*rate, y - f64::from(BAR) + 2.0)];
                chart.draw_series([Rectangle::new(ends, colour(*engine).filled())])?;
                let style = anchored(VALUE, HPos::Left, VPos::Center);
                chart.draw_series([EmptyElement::at((*rate, y - f64::from(BAR) / 2.0))
                    + Text::new(text.clone(), (6, 0), style)])?;
                y -= f64::from(BAR);
            }
            y -= f64::from(GAP);
        }
        root.present()?;
    }
    Ok(svg)
}

/// Space for the names of cells, in pixels.
fn label_width(cells: &[Cell]) -> u32 {
    let widest = cells.iter().map(|cell| width(&cell.label, LABEL.into())).fold(0.0, f64::max);
    // Between a short word and half of the paper.
    (120..WIDTH / 2).find(|&pixels| f64::from(pixels) >= widest + 24.0).unwrap_or(WIDTH / 2)
}

/// The rate at the right end of an axis of that many pixels, so that every bar has room for its text.
fn longest(cells: &[Cell], pixels: f64) -> f64 {
    let bars = cells.iter().flat_map(|cell| &cell.bars);
    let end = |(_, rate, text): &(usize, f64, String)| {
        rate * pixels / (pixels - width(text, VALUE.into()) - 24.0).max(pixels / 4.0)
    };
    bars.map(end).fold(f64::MIN_POSITIVE, f64::max)
}

/// Cells in the order of their work, each with the engines that have a rate.
fn cells(group: &Group<'_>, factor: f64) -> Vec<Cell> {
    let engines = group.engines();
    let mut firsts: Vec<&Row> = Vec::new();
    for &row in &group.rows {
        if firsts.iter().all(|first| first.problem() != row.problem()) {
            firsts.push(row);
        }
    }
    firsts.sort_by_key(|row| (row.head_dim_qk, row.num_kv_heads, row.total_kv, row.kv_seqlen));
    let cell = |first: &Row| {
        let problem = first.problem();
        let bar = |(at, (_, ours, rows)): (usize, &(&str, bool, Vec<&Row>))| {
            let row = rows.iter().find(|row| row.problem() == problem)?;
            let rate = row.rate()?.0 * factor;
            Some((at, rate, text_of(group, row, rate, *ours)))
        };
        Cell { label: label(first), bars: engines.iter().enumerate().filter_map(bar).collect() }
    };
    firsts.into_iter().map(cell).collect()
}

/// The rate, what share of the limit that is, and how it compares with the best peer.
fn text_of(group: &Group<'_>, row: &Row, rate: f64, ours: bool) -> String {
    let mut text = if rate < 10.0 { format!("{rate:.2}") } else { format!("{rate:.0}") };
    if let Some(share) = row.limit_share {
        text += &format!(", {:.0}% of {}", 100.0 * share, row.limit);
    }
    let peer = group.best_peer(row).filter(|_| ours);
    if let Some((peer, own)) = peer.and_then(|peer| peer.time_us).zip(row.time_us) {
        text += &format!(", {:.2}x best peer", peer / own);
    }
    text
}

fn label(row: &Row) -> String {
    let model = if row.model.is_empty() { String::new() } else { format!("{} ", row.model) };
    let sink = if row.sink { " sink" } else { "" };
    let mask = match row.mask {
        Mask::None if row.is_decode() => String::new(),
        _ => format!(" {}", mask_name(row)),
    };
    let paged = if row.storage.starts_with("paged") { " paged" } else { "" };
    let extents = match row.lengths.is_empty() {
        true if row.q_seqlen == row.kv_seqlen || row.is_decode() => {
            format!("b{} s{}{paged}", row.batch, row.kv_seqlen)
        }
        true => format!("b{} q{} s{}{paged}", row.batch, row.q_seqlen, row.kv_seqlen),
        false => format!("{} max {}", row.lengths, row.kv_seqlen),
    };
    plain(&format!("{model}{} {extents}{mask}{sink}", heads(row)))
}
