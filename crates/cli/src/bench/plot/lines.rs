//! Lines over lengths: times as fast as the best peer, or rates where there is no peer.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::Group;
use super::canvas::{DrawError, GRID, INK, Name, WIDTH, anchored, colour, height, paper, text};
use crate::bench::row::Row;

const HEIGHT: u32 = 460;

/// A line: its name, whether it is one of the main ones, its points.
struct Line {
    name: String,
    main: bool,
    points: Vec<Point>,
}

struct Point {
    length: f64,
    value: f64,
    label: String,
}

/// What the vertical axis counts.
struct Scale {
    title: &'static str,
    /// A level to compare with, and its name.
    level: Option<(f64, String)>,
    top: f64,
}

pub(super) fn draw(group: &Group<'_>) -> Result<String, DrawError> {
    let ratios = ratios(group);
    let (what, lines, scale) = if ratios.is_empty() {
        let (lines, scale) = rates(group);
        ("rate", lines, scale)
    } else {
        let top = highest(&ratios).max(1.0) * 1.15;
        let level = Some((1.0, "best peer".to_owned()));
        let title = "times as fast as the best peer";
        ("against the best peer", ratios, Scale { title, level, top })
    };
    let strokes = |line: &Line| if line.main { 3 } else { 1 };
    let name = |(at, line): (usize, &Line)| Name {
        text: line.name.clone(),
        colour: colour(at),
        stroke: strokes(line),
    };
    let mut names: Vec<Name> = lines.iter().enumerate().map(name).collect();
    if let Some((_, name)) = &scale.level {
        names.push(Name { text: name.clone(), colour: INK, stroke: 2 });
    }
    let mut svg = String::new();
    {
        let size = (WIDTH, height(HEIGHT, names.len()));
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let title = format!("{}: {what}", group.title);
        let area = paper(&root, (&title, &group.subtitle()), &names)?;
        let lengths = lines.iter().flat_map(|line| &line.points).map(|point| point.length);
        let shortest = lengths.clone().fold(f64::INFINITY, f64::min);
        let longest = lengths.fold(0.0, f64::max);
        let across = (shortest / 1.25..longest * 1.25).log_scale().base(2.0);
        let mut chart = ChartBuilder::on(&area)
            .margin_left(10)
            .margin_right(8)
            .margin_bottom(8)
            .x_label_area_size(46)
            .y_label_area_size(64)
            .build_cartesian_2d(across, 0.0..scale.top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(INK)
            .x_desc("rows of K and V (log scale)")
            .y_desc(scale.title)
            .x_labels(12)
            .x_label_formatter(&|length| format!("{length:.0}"))
            .y_label_formatter(&|value| short(*value))
            .label_style(text(13))
            .axis_desc_style(text(14))
            .draw()?;
        if let Some((level, _)) = scale.level {
            let ends = [(shortest / 1.25, level), (longest * 1.25, level)];
            chart.draw_series(DashedLineSeries::new(ends, 8, 5, INK.stroke_width(2)))?;
        }
        // The main lines last, on top.
        for (at, line) in lines.iter().enumerate().rev() {
            let points = || line.points.iter().map(|point| (point.length, point.value));
            chart.draw_series(LineSeries::new(points(), colour(at).stroke_width(strokes(line))))?;
            if !line.main {
                continue;
            }
            chart.draw_series(points().map(|at_| Circle::new(at_, 4, colour(at).filled())))?;
            // Numbers at two lines would lie on one another.
            if lines.iter().filter(|line| line.main).count() == 1 {
                let style = anchored(12, HPos::Center, VPos::Center);
                chart.draw_series(line.points.iter().map(|point| {
                    // Away from the level, so as not to lie on it.
                    let below = scale.level.as_ref().is_some_and(|(level, _)| point.value < *level);
                    EmptyElement::at((point.length, point.value))
                        + Text::new(
                            point.label.clone(),
                            (0, if below { 16 } else { -14 }),
                            style.clone(),
                        )
                }))?;
            }
        }
        root.present()?;
    }
    Ok(svg)
}

fn highest(lines: &[Line]) -> f64 {
    lines.iter().flat_map(|line| &line.points).map(|point| point.value).fold(0.0, f64::max)
}

/// A number for an axis.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Each engine of ours over the best peer; and over every peer, where there are several.
fn ratios(group: &Group<'_>) -> Vec<Line> {
    let engines = group.engines();
    let peers: Vec<_> = engines.iter().filter(|(_, ours, _)| !ours).collect();
    let mut lines = Vec::new();
    for (name, _, rows) in engines.iter().filter(|(_, ours, _)| *ours) {
        let best = |row: &Row| group.best_peer(row).and_then(|peer| peer.time_us);
        let main = against(name, true, rows, best);
        lines.extend((!main.points.is_empty()).then_some(main));
    }
    if lines.len() != 1 || peers.len() < 2 {
        return lines;
    }
    let (_, _, rows) = &engines[0];
    for (peer, _, theirs) in peers {
        let of_peer = |row: &Row| {
            let problem = row.problem();
            theirs.iter().find(|peer| peer.problem() == problem)?.time_us
        };
        let line = against(&format!("against {peer}"), false, rows, of_peer);
        lines.extend((!line.points.is_empty()).then_some(line));
    }
    lines
}

fn against(name: &str, main: bool, rows: &[&Row], peer: impl Fn(&Row) -> Option<f64>) -> Line {
    let point = |row: &&Row| {
        let value = peer(row)? / row.time_us?;
        Some(Point { length: row.kv_seqlen as f64, value, label: format!("{value:.2}") })
    };
    line(name, main, rows.iter().filter_map(point).collect())
}

fn line(name: &str, main: bool, mut points: Vec<Point>) -> Line {
    points.sort_by(|a, b| a.length.total_cmp(&b.length));
    Line { name: name.into(), main, points }
}

/// The rate of every engine, under the limit that binds.
fn rates(group: &Group<'_>) -> (Vec<Line>, Scale) {
    let fastest = group.rows.iter().filter_map(|row| row.tflops).fold(0.0, f64::max);
    let (unit, factor) = if fastest < 1.0 { ("GFLOP/s", 1e3) } else { ("TFLOP/s", 1.0) };
    let point = |row: &&Row| {
        let value = row.tflops? * factor;
        let label = match row.limit_share {
            Some(share) => format!("{:.0}%", 100.0 * share),
            None => short(value),
        };
        Some(Point { length: row.kv_seqlen as f64, value, label })
    };
    let engines = group.engines().into_iter();
    let lines: Vec<Line> = engines
        .map(|(name, _, rows)| line(name, true, rows.iter().filter_map(point).collect()))
        .filter(|line| !line.points.is_empty())
        .collect();
    let limits = group.rows.iter().filter(|row| row.limit == "compute");
    let limit = limits.filter_map(|row| row.limit_tflops).fold(0.0, f64::max) * factor;
    let level = (limit > 0.0).then(|| (limit, "limit of the device".to_owned()));
    let top = highest(&lines).max(limit) * 1.15;
    (lines, Scale { title: unit, level, top })
}
