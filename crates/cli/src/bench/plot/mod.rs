//! Rows as drawings: one SVG file for each group of cells that belong on one scale.

mod bars;
mod canvas;
mod lines;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use super::cell::Mask;
use super::row::{Row, Status};
use crate::failure::Failure;
use crate::files;

/// Makes a folder, or says why it cannot be.
pub(super) fn folder(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::in_file(path, "is a file; a folder is needed"),
        _ => Failure::in_file(path, format!("cannot be made: {error}")),
    })
}

/// Rows of one drawing, of one device.
#[derive(Debug)]
struct Group<'a> {
    kind: Kind,
    /// What all rows have in common, in words.
    title: String,
    device: &'a str,
    /// First and last day of the rows.
    days: (&'a str, &'a str),
    rows: Vec<&'a Row>,
}

/// How rows are drawn.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Along an axis of lengths.
    Lines,
    /// Side by side.
    Bars,
}

/// Draws all rows that have a time, and says how many files that made.
pub(super) fn draw(folder: &Path, rows: &[Row]) -> Result<usize, Failure> {
    let groups = groups(rows);
    for group in &groups {
        let svg = match group.kind {
            Kind::Lines => lines::draw(group),
            Kind::Bars => bars::draw(group),
        };
        let title = &group.title;
        let svg = svg.map_err(|error| Failure::Fault(format!("{title}: {error}")))?;
        let path = folder.join(format!("{}.svg", slug(&format!("{title} {}", group.device))));
        files::write(&path, svg.as_bytes()).map_err(|error| Failure::in_file(&path, error))?;
    }
    Ok(groups.len())
}

/// Sorts rows into drawings. Of several rows of one engine about one problem the last counts.
fn groups(rows: &[Row]) -> Vec<Group<'_>> {
    let mut last: BTreeMap<String, &Row> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.status == Status::Measured && row.time_us.is_some()) {
        last.insert(row.identity(), row);
    }
    let mut lines: BTreeMap<(&str, String), Vec<&Row>> = BTreeMap::new();
    for &row in last.values() {
        lines.entry((&row.device, along_lengths(row))).or_default().push(row);
    }
    let names = group_names(&last);
    let mut bars: BTreeMap<(&str, String), Vec<&Row>> = BTreeMap::new();
    let mut groups = Vec::new();
    for ((device, title), rows) in lines {
        let first = rows[0];
        let of_one_length = rows.iter().all(|row| row.kv_seqlen == first.kv_seqlen);
        // A logarithmic axis has no 0.
        let has_axis = !of_one_length && rows.iter().all(|row| row.kv_seqlen > 0);
        if !has_axis || first.is_decode() || !first.lengths.is_empty() {
            for row in rows {
                let title = side_by_side(row, names.get(&row.problem()).copied());
                bars.entry((device, title)).or_default().push(row);
            }
        } else {
            groups.push(Group::new(Kind::Lines, title, rows));
        }
    }
    groups.extend(bars.into_iter().map(|((_, title), rows)| Group::new(Kind::Bars, title, rows)));
    groups
}

/// Head dims, heads, mask and type: what is the same along an axis of lengths.
fn along_lengths(row: &Row) -> String {
    let Row { model, dtype, storage, cache, .. } = row;
    let model = if model.is_empty() { String::new() } else { format!("{model} ") };
    let sink = if row.sink { " sink" } else { "" };
    let storage = if storage == "dense" { String::new() } else { format!(" {storage}") };
    format!("{model}{} {} {dtype}{sink}{storage}, {cache} caches", heads(row), mask_name(row))
}

/// The mask; no mask by what queries then see.
fn mask_name(row: &Row) -> String {
    match row.mask {
        Mask::None if row.q_seqlen == row.kv_seqlen => "full".into(),
        Mask::None => "cross".into(),
        mask => mask.to_string(),
    }
}

/// `preset/group` of every problem, from the names that our rows have for it, or else a peer's.
fn group_names<'a>(rows: &BTreeMap<String, &'a Row>) -> BTreeMap<String, &'a str> {
    let mut names = BTreeMap::new();
    let (ours, peers): (Vec<&Row>, Vec<&Row>) = rows.values().partition(|row| row.is_ours());
    for row in peers.into_iter().chain(ours) {
        let group = row.config.rsplit_once('/').map(|(group, _)| group);
        names.extend(group.map(|group| (row.problem(), group)));
    }
    names
}

/// What is the same in a drawing of bars; there is one unit for all of them.
fn side_by_side(row: &Row, group: Option<&str>) -> String {
    let Row { dtype, cache, .. } = row;
    let form = match row.is_decode() {
        true => "decode",
        false if row.lengths.is_empty() => "prefill",
        false => "packed",
    };
    let form = match group {
        Some(group) if group.ends_with(form) => group.to_owned(),
        Some(group) => format!("{group} ({form})"),
        None => form.to_owned(),
    };
    format!("{form} {dtype}, {cache} caches")
}

/// `d128 h32x8`.
fn heads(row: &Row) -> String {
    let pair = |sign: char, a: u64, b: u64| match a == b {
        true => format!("{sign}{a}"),
        false => format!("{sign}{a}x{b}"),
    };
    let dims = pair('d', row.head_dim_qk, row.head_dim_v);
    format!("{dims} {}", pair('h', row.num_q_heads, row.num_kv_heads))
}

/// A file name of a title.
fn slug(title: &str) -> String {
    let plain =
        |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' };
    let mut name: String = title.chars().map(plain).collect();
    while name.contains("--") {
        name = name.replace("--", "-");
    }
    name.trim_matches('-').to_owned()
}

impl<'a> Group<'a> {
    /// Of at least one row.
    fn new(kind: Kind, title: String, rows: Vec<&'a Row>) -> Self {
        let days = || rows.iter().map(|row| row.date.get(..10).unwrap_or(&row.date));
        let days = (days().min().unwrap_or_default(), days().max().unwrap_or_default());
        let device = rows.first().map_or("", |row| row.device.as_str());
        Self { kind, title, device, days, rows }
    }

    /// Engines with their rows, ours first.
    fn engines(&self) -> Vec<(&'a str, bool, Vec<&'a Row>)> {
        let mut engines: BTreeMap<(bool, &str), Vec<&Row>> = BTreeMap::new();
        for &row in &self.rows {
            engines.entry((!row.is_ours(), row.engine.as_str())).or_default().push(row);
        }
        let with_rows = |((peer, name), rows): ((bool, &'a str), Vec<&'a Row>)| (name, !peer, rows);
        engines.into_iter().map(with_rows).collect()
    }

    /// The fastest row of a peer about the problem of a row.
    fn best_peer(&self, row: &Row) -> Option<&'a Row> {
        let problem = row.problem();
        let peers = self.rows.iter().filter(|peer| !peer.is_ours() && peer.problem() == problem);
        let time = |row: &Row| row.time_us.unwrap_or(f64::INFINITY);
        peers.min_by(|a, b| time(a).total_cmp(&time(b))).copied()
    }

    /// Device and days.
    fn subtitle(&self) -> String {
        let (first, last) = self.days;
        let until = if first == last { String::new() } else { format!(" to {last}") };
        format!("{}, {first}{until}", self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(engine: &str, kv_seqlen: u64, time_us: f64) -> Row {
        let mut row = Row::default_of_schema();
        (row.engine, row.time_us, row.tflops) = (engine.into(), Some(time_us), Some(100.0));
        (row.q_seqlen, row.kv_seqlen, row.total_kv) = (kv_seqlen, kv_seqlen, kv_seqlen);
        (row.device, row.status) = ("Device X".into(), Status::Measured);
        (row.head_dim_qk, row.head_dim_v, row.num_q_heads, row.num_kv_heads) = (128, 128, 8, 8);
        row.date = "2026-11-29T00:00:00Z".into();
        row.storage = "dense".into();
        row
    }

    fn peer(engine: &str, kv_seqlen: u64, time_us: f64) -> Row {
        Row { versions: "peer 1.0".into(), ..row(engine, kv_seqlen, time_us) }
    }

    fn svg(rows: &[Row]) -> String {
        let groups = groups(rows);
        assert_eq!(groups.len(), 1, "{groups:?}");
        match groups[0].kind {
            Kind::Lines => lines::draw(&groups[0]).unwrap(),
            Kind::Bars => bars::draw(&groups[0]).unwrap(),
        }
    }

    /// Whether every text stands in the drawing.
    fn assert_says(svg: &str, texts: &[&str]) {
        let lines: Vec<&str> = svg.lines().map(str::trim).collect();
        for text in texts {
            assert!(lines.contains(text), "no `{text}` in {svg}");
        }
    }

    #[test]
    fn ratios_over_lengths_where_there_are_peers() {
        let mut rows = vec![row("sdpa_fwd_cpu", 512, 99.0)];
        // The last row of an engine about a problem counts.
        rows.push(row("sdpa_fwd_cpu", 512, 10.0));
        rows.push(row("sdpa_fwd_cpu", 1024, 40.0));
        rows.extend([peer("fa3", 512, 9.0), peer("fa3", 1024, 50.0), peer("cudnn", 512, 8.0)]);
        let svg = svg(&rows);
        let title = "d128 h8 full f32, cold caches: against the best peer";
        assert_says(&svg, &[title, "Device X, 2026-11-29", "best peer", "512", "1024"]);
        assert_says(&svg, &["sdpa_fwd_cpu", "against fa3", "against cudnn"]);
        assert_says(&svg, &["0.80", "1.25"]);
    }

    #[test]
    fn rates_over_lengths_where_there_is_no_peer() {
        let mut rows = vec![row("sdpa_fwd_cpu", 512, 10.0), row("sdpa_fwd_cpu", 1024, 40.0)];
        for row in &mut rows {
            (row.limit, row.limit_share) = ("compute".into(), Some(0.5));
            row.limit_tflops = Some(200.0);
        }
        let svg = svg(&rows);
        assert_says(&svg, &["sdpa_fwd_cpu", "limit of the device", "50%", "TFLOP/s"]);
    }

    #[test]
    fn bars_where_there_are_no_lengths_to_go_along() {
        let decode = |row: Row, gbs| Row { q_seqlen: 1, tflops: None, gbs: Some(gbs), ..row };
        let rows = [
            decode(row("sdpa_fwd_cpu", 4096, 10.0), 300.0),
            decode(peer("fa3", 4096, 5.0), 600.0),
            decode(row("sdpa_fwd_cpu", 8192, 20.0), 300.0),
        ];
        let svg = svg(&rows);
        assert_says(&svg, &["decode f32, cold caches", "sdpa_fwd_cpu", "fa3", "GB/s"]);
        assert_says(
            &svg,
            &["300, 0.50x best peer", "300", "600", "d128 h8 b0 s4096", "d128 h8 b0 s8192"],
        );
    }

    #[test]
    fn names_of_anyone_make_a_drawing_that_can_be_read() {
        let name = "<an \u{1b}[31m engine & more> of a vendor with a long name";
        let long: Vec<Row> = (0..40)
            .flat_map(|at| [512, 1024].map(|length| row(&format!("{at} {name}"), length, 1.0)))
            .collect();
        let svg = svg(&long);
        assert!(!svg.contains(|c: char| c.is_control() && !c.is_whitespace()), "{svg}");
        assert!(svg.contains("&lt;an \\u{1b}[31m") && svg.contains('…'), "{svg}");
        // The legend ends above the end of the paper.
        let height: u32 =
            svg.split("height=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
        assert!(height > 40 * 24, "{height}");
        // Lengths of which one is 0 have no place on a logarithmic axis.
        let lengths = [row("x", 0, 1.0), row("x", 512, 1.0)];
        assert!(matches!(groups(&lengths)[0].kind, Kind::Bars));
    }

    #[test]
    fn devices_masks_and_caches_are_drawn_apart() {
        let mut rows = Vec::new();
        for length in [512, 1024] {
            rows.push(row("sdpa_fwd_cpu", length, 1.0));
            rows.push(Row { mask: Mask::Causal, ..row("sdpa_fwd_cpu", length, 1.0) });
            rows.push(Row { cache: "warm".into(), ..row("sdpa_fwd_cpu", length, 1.0) });
            rows.push(Row { device: "Y".into(), ..row("sdpa_fwd_cpu", length, 1.0) });
            rows.push(Row { status: Status::Wrong, ..row("another", length, 1.0) });
        }
        let groups = groups(&rows);
        assert_eq!(groups.len(), 4);
        assert!(groups.iter().all(|group| group.rows.len() == 2));
        let names: std::collections::BTreeSet<String> =
            groups.iter().map(|group| slug(&format!("{} {}", group.title, group.device))).collect();
        assert_eq!(names.len(), 4);
        assert!(names.contains("d128-h8-causal-f32-cold-caches-device-x"), "{names:?}");
    }
}
