//! Results of other software beside ours.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::row::{Row, Status};
use super::store;
use crate::failure::Failure;

/// Peers' rows by device and problem.
#[derive(Debug, Default)]
pub(super) struct Peers {
    rows: BTreeMap<(String, String), Vec<Row>>,
    /// Problems that a row of ours was looked up for.
    met: BTreeSet<(String, String)>,
}

impl Peers {
    pub(super) fn read(files: &[PathBuf]) -> Result<Self, Failure> {
        let mut peers = Self::default();
        for file in files {
            let rows = store::read(file)?.into_iter();
            for row in rows.filter(|row| row.status == Status::Measured && row.time_us.is_some()) {
                peers.rows.entry(key(&row)).or_default().push(row);
            }
        }
        Ok(peers)
    }

    pub(super) fn into_rows(self) -> impl Iterator<Item = Row> {
        self.rows.into_values().flatten()
    }

    /// Names the fastest peer in a row of ours that has a time.
    pub(super) fn compare(&mut self, row: &mut Row) {
        let key = key(row);
        let time = |row: &Row| row.time_us.unwrap_or(f64::INFINITY);
        let peers = self.rows.get(&key).into_iter().flatten();
        let best = peers.min_by(|a, b| time(a).total_cmp(&time(b)));
        let Some((best, ours)) = best.zip(row.time_us) else { return };
        row.best_peer.clone_from(&best.engine);
        row.best_peer_speedup = Some(super::row::six_digits(time(best) / ours));
        self.met.insert(key);
    }

    /// What was not compared with anything, in words; `None` when all was.
    pub(super) fn unmet(&self) -> Option<String> {
        let unmet = self.rows.iter().filter(|(key, _)| !self.met.contains(*key));
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for ((device, _), rows) in unmet {
            *counts.entry(device).or_default() += rows.len();
        }
        let all: usize = self.rows.values().map(Vec::len).sum();
        let parts = counts.iter().map(|(device, rows)| format!("{rows} on {device}"));
        let parts: Vec<String> = parts.collect();
        let text = parts.join(", ");
        let text = format!("of {all} rows of peers these met no row timed in this run: {text}");
        (!parts.is_empty()).then_some(text)
    }
}

/// Times of two devices, or with cold and warm caches, say nothing about one another.
fn key(row: &Row) -> (String, String) {
    (row.device.clone(), format!("{} {}", row.cache, row.problem()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(engine: &str, kv_seqlen: u64, time_us: f64) -> Row {
        let mut row = Row::default_of_schema();
        (row.engine, row.kv_seqlen, row.time_us) = (engine.into(), kv_seqlen, Some(time_us));
        (row.device, row.status) = ("X".into(), Status::Measured);
        row
    }

    fn of(rows: Vec<Row>) -> Peers {
        let mut peers = Peers::default();
        rows.into_iter().for_each(|row| peers.rows.entry(key(&row)).or_default().push(row));
        peers
    }

    #[test]
    fn the_fastest_peer_of_the_same_problem_and_device_is_named() {
        let mut elsewhere = row("fa3", 64, 0.1);
        elsewhere.device = "Y".into();
        let mut warm = row("fa2", 64, 0.1);
        warm.cache = "warm".into();
        let mut peers = of(vec![row("fa3", 64, 5.0), row("cudnn", 64, 4.0), elsewhere, warm]);
        let mut ours = row("sdpa_fwd_cpu", 64, 8.0);
        peers.compare(&mut ours);
        assert_eq!((ours.best_peer.as_str(), ours.best_peer_speedup), ("cudnn", Some(0.5)));
        let mut alone = row("sdpa_fwd_cpu", 65, 8.0);
        peers.compare(&mut alone);
        assert_eq!((alone.best_peer.as_str(), alone.best_peer_speedup), ("", None));
        let text = peers.unmet().unwrap();
        assert!(text.contains("of 4 rows") && text.ends_with("1 on X, 1 on Y"), "{text}");
        assert_eq!(peers.into_rows().count(), 4);
    }

    #[test]
    fn nothing_is_said_when_all_were_met() {
        let mut peers = of(vec![row("fa3", 64, 5.0)]);
        peers.compare(&mut row("sdpa_fwd_cpu", 64, 8.0));
        assert_eq!(peers.unmet(), None);
    }
}
