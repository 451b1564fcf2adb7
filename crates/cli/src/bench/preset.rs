//! Presets: models and tables of shapes as data.

use std::fmt;

use frazil::DType;
use serde::Deserialize;

use super::cell::{Cell, Mask, Shape};
use crate::failure::Failure;

/// Every preset by name, in the order of the list.
const PRESETS: [(&str, &str); 8] = [
    ("quick", include_str!("../../presets/quick.toml")),
    ("llama3.1", include_str!("../../presets/llama3.1.toml")),
    ("gpt-oss", include_str!("../../presets/gpt-oss.toml")),
    ("deepseek-v3", include_str!("../../presets/deepseek-v3.toml")),
    ("qwen", include_str!("../../presets/qwen.toml")),
    ("wan", include_str!("../../presets/wan.toml")),
    ("minilm", include_str!("../../presets/minilm.toml")),
    ("h200", include_str!("../../presets/h200.toml")),
];

/// Lists of lengths by name.
const LENGTHS: &str = include_str!("../../presets/lengths.toml");

/// A file of `presets/`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Preset {
    #[serde(skip)]
    pub(super) name: &'static str,
    /// What it is, for the list.
    pub(super) about: String,
    /// Where its numbers come from.
    pub(super) source: String,
    #[serde(rename = "group")]
    groups: Vec<Group>,
}

/// Cells that differ in their extents and masks alone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    /// Groups of one name are chosen together.
    name: String,
    #[serde(default)]
    model: String,
    dtype: DType,
    num_q_heads: u64,
    num_kv_heads: u64,
    head_dim_qk: u64,
    /// Absent: as `head_dim_qk`.
    head_dim_v: Option<u64>,
    masks: Vec<Mask>,
    /// Whether every head has a sink.
    #[serde(default)]
    sink: bool,
    /// K and V in pages of that many rows.
    page_size: Option<u64>,
    cells: Vec<Extents>,
}

/// Extents of a cell: `seqlen` rows a sequence, dense (K and V in pages where the group has a page
/// size), or packed `lengths`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Extents {
    batch: Option<u64>,
    /// Rows of K and V, and of Q unless `seqlen_q` says otherwise.
    seqlen: Option<u64>,
    seqlen_q: Option<u64>,
    /// `NxL`, or a name of `lengths.toml`.
    lengths: Option<String>,
    /// The greatest length declared; absent: the greatest there is.
    declared: Option<u64>,
}

/// All presets.
pub(super) fn all() -> Vec<Preset> {
    let parse = |(name, text): (&'static str, &str)| {
        let preset: Preset = toml::from_str(text).expect("a test reads every preset");
        Preset { name, ..preset }
    };
    PRESETS.into_iter().map(parse).collect()
}

/// The cells of the presets named, `PRESET` or `PRESET/GROUP`, each cell once.
pub(super) fn select(names: &[String]) -> Result<Vec<Cell>, Failure> {
    let presets = all();
    let mut cells: Vec<Cell> = Vec::new();
    for wanted in names {
        let (name, group) = match wanted.split_once('/') {
            Some((name, group)) => (name, Some(group)),
            None => (wanted.as_str(), None),
        };
        let Some(preset) = presets.iter().find(|preset| preset.name == name) else {
            let known: Vec<&str> = presets.iter().map(|preset| preset.name).collect();
            let known = known.join(", ");
            return Err(Failure::Input(format!(
                "no preset is called `{name}`; there are: {known}"
            )));
        };
        let chosen = preset.cells(group);
        if chosen.is_empty() {
            let (group, known) = (group.unwrap_or_default(), preset.group_names().join(", "));
            let what = format!("preset {name} has no group `{group}`; it has: {known}");
            return Err(Failure::Input(what));
        }
        for cell in chosen {
            if !cells.iter().any(|before| before.config == cell.config) {
                cells.push(cell);
            }
        }
    }
    Ok(cells)
}

impl Preset {
    /// Each once.
    pub(super) fn group_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.groups.iter().map(|group| group.name.as_str()).collect();
        names.dedup();
        names
    }

    /// The cells of one group, or of all.
    pub(super) fn cells(&self, group: Option<&str>) -> Vec<Cell> {
        let groups = self.groups.iter().filter(|one| group.is_none_or(|name| one.name == name));
        groups.flat_map(|group| group.expand(self.name)).collect()
    }
}

impl Group {
    fn expand(&self, preset: &str) -> impl Iterator<Item = Cell> {
        let shape = Shape {
            num_q_heads: self.num_q_heads,
            num_kv_heads: self.num_kv_heads,
            head_dim_qk: self.head_dim_qk,
            head_dim_v: self.head_dim_v.unwrap_or(self.head_dim_qk),
            ..Shape::default()
        };
        let by_mask = self.masks.iter().map(move |&mask| (mask, shape.clone()));
        by_mask.flat_map(move |(mask, shape)| {
            self.cells.iter().map(move |extents| {
                let shape = extents.fill(shape.clone(), self.page_size);
                let group = format!("{preset}/{}", self.name);
                Cell::new(&group, &self.model, self.dtype, (mask, self.sink), shape)
            })
        })
    }
}

impl Extents {
    fn fill(&self, shape: Shape, page_size: Option<u64>) -> Shape {
        let Some(name) = &self.lengths else {
            let seqlen = self.seqlen.expect("a test reads every preset");
            return Shape {
                batch: self.batch.unwrap_or(1),
                seqlen_q: self.seqlen_q.unwrap_or(seqlen),
                seqlen_kv: seqlen,
                page_size,
                ..shape
            };
        };
        let lengths = lengths(name).expect("a test reads every preset");
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let seqlen = self.declared.unwrap_or(longest);
        Shape {
            batch: lengths.len() as u64,
            seqlen_q: seqlen,
            seqlen_kv: seqlen,
            packed: Some((name.clone(), lengths)),
            ..shape
        }
    }
}

/// The lengths of a name: `NxL`, N sequences of L rows, or an entry of `lengths.toml`.
fn lengths(name: &str) -> Option<Vec<u64>> {
    if let Some((count, length)) = name.split_once('x')
        && let (Ok(count), Ok(length)) = (count.parse(), length.parse())
    {
        return Some(vec![length; count]);
    }
    let table: toml::Table = LENGTHS.parse().ok()?;
    let list = table.get(name)?.as_array()?;
    list.iter().map(|length| u64::try_from(length.as_integer()?).ok()).collect()
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.about)
    }
}

#[cfg(test)]
mod tests {
    use frazil_conformance::declare::declare;

    use super::*;
    use crate::bench::work::Work;

    #[test]
    fn every_preset_declares_valid_graphs_of_names_of_their_own() {
        let mut names = std::collections::BTreeSet::new();
        for preset in all() {
            assert!(!preset.about.is_empty() && !preset.source.is_empty(), "{preset}");
            let cells = preset.cells(None);
            assert!(!cells.is_empty(), "{preset}");
            for cell in cells {
                let declared = declare(&cell.case(0));
                assert!(declared.is_ok(), "{}: {declared:?}", cell.config);
                assert!(Work::of(&cell).flops > 0.0, "{}", cell.config);
                assert!(names.insert(cell.config.clone()), "{} is there twice", cell.config);
            }
        }
        assert!(names.len() > 100);
    }

    /// Whoever adds an engine says here how many cells it serves on its own kind of device, and how it
    /// declines the others.
    #[test]
    fn every_engine_answers_every_cell() {
        let router = frazil::Router::from_registrations().unwrap();
        let targets = [frazil::target::fixtures::host(), frazil::target::fixtures::sm90()];
        let targets = targets.map(std::sync::Arc::new);
        let mut answers = std::collections::BTreeMap::<(String, String), usize>::new();
        for cell in all().iter().flat_map(|preset| preset.cells(None)) {
            let declared = declare(&cell.case(0)).unwrap();
            let explained = targets.iter().map(|target| router.explain(&declared.facts, target));
            for (engine, _, answer) in explained.flat_map(|explained| explained.answers) {
                let answer = frazil_conformance::run::answer_name(&answer);
                *answers.entry((engine.to_string(), answer)).or_default() += 1;
            }
        }
        let found: Vec<String> = answers
            .iter()
            .filter(|((_, answer), _)| answer != "Device")
            .map(|((engine, answer), count)| format!("{engine} {answer} {count}"))
            .collect();
        // What is measured in f32 is for the host.
        let expected =
            ["sdpa_fwd_cpu served 127", "sdpa_fwd_sm80 DType 15", "sdpa_fwd_sm80 served 112"];
        assert_eq!(found, expected);
    }

    #[test]
    fn lists_have_the_totals_that_the_peers_ran() {
        let total = |name| lengths(name).unwrap().iter().sum::<u64>();
        assert_eq!((total("skew"), total("chat"), total("16x1024")), (14_875, 23_042, 16_384));
        assert_eq!(lengths("chat").unwrap().len(), 64);
        assert!(lengths("nobody").is_none() && lengths("3xy").is_none());
    }

    #[test]
    fn presets_and_groups_are_chosen_by_name() {
        let count = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            select(&names).map(|cells| cells.len())
        };
        assert_eq!(count(&["h200/dense"]).unwrap(), 36);
        assert_eq!(count(&["h200/dense", "h200/dense", "h200/decode"]).unwrap(), 41);
        assert_eq!(count(&["h200"]).unwrap(), 36 + 6 + 5 + 13);
        let unknown = |names| count(names).unwrap_err().to_string();
        assert!(unknown(&["nobody"]).contains("llama3.1"));
        assert!(unknown(&["h200/nobody"]).contains("deadspace"));
    }
}
