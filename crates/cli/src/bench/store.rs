//! Rows in CSV files.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::row::{Row, Status};
use crate::failure::Failure;
use crate::files;

/// A file that rows are added to, each whole: whatever ends the program, the file is a table.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    file: File,
    pub(super) known: Known,
}

/// What a file has already, by [`Row::identity`].
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Answers that stand: times, and declines.
    answered: BTreeSet<String>,
    /// What was too large then: tried again, and not said again if it still is.
    skipped: BTreeSet<String>,
}

impl Known {
    pub(super) fn of(rows: &[Row]) -> Self {
        let with = |statuses: &[Status]| {
            let rows = rows.iter().filter(|row| row.is_ours() && statuses.contains(&row.status));
            rows.map(Row::identity).collect()
        };
        Self {
            answered: with(&[Status::Measured, Status::Declined]),
            skipped: with(&[Status::Skipped]),
        }
    }

    /// Whether a row need not be made again.
    pub(super) fn is_answered(&self, row: &Row) -> bool {
        self.answered.contains(&row.identity())
    }

    /// Whether a row says nothing new.
    fn is_stale(&self, row: &Row) -> bool {
        row.status == Status::Skipped && self.skipped.contains(&row.identity())
    }
}

impl Store {
    /// A file to add rows to, new or begun, and what it holds.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<Row>), Failure> {
        let unwritable = |error| Failure::in_file(path, format!("cannot be written: {error}"));
        let text = if path.exists() { files::read(path)? } else { Vec::new() };
        let (whole, torn) = whole_lines(&text);
        let rows = if whole.is_empty() { Vec::new() } else { parse(path, whole)? };
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(unwritable)?;
        if torn > 0 {
            // A system that went down in the middle of a write; the row is measured again.
            let _ = writeln!(
                std::io::stderr(),
                "frazil: {}: the last line is torn and was cut off",
                path.display()
            );
            file.set_len(whole.len() as u64).map_err(unwritable)?;
        }
        let mut store = Self { path: path.to_owned(), file, known: Known::default() };
        if whole.is_empty() {
            store.write(format!("{}\n", columns()?.join(",")).as_bytes())?;
        }
        Ok((store, rows))
    }

    /// Adds a row, in one write.
    pub(super) fn add(&mut self, row: &Row) -> Result<(), Failure> {
        if self.known.is_stale(row) {
            return Ok(());
        }
        self.write(&record(row)?)
    }

    fn write(&mut self, line: &[u8]) -> Result<(), Failure> {
        let written = self.file.write_all(line).and_then(|()| self.file.flush());
        written.map_err(|error| Failure::Fault(format!("{}: {error}", self.path.display())))
    }
}

/// Lines that end, and how many bytes come after them.
fn whole_lines(text: &[u8]) -> (&[u8], usize) {
    let end = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    (&text[..end], text.len() - end)
}

/// Reads a whole file of rows.
pub(super) fn read(path: &Path) -> Result<Vec<Row>, Failure> {
    parse(path, &files::read(path)?)
}

fn parse(path: &Path, text: &[u8]) -> Result<Vec<Row>, Failure> {
    let mut reader = csv::Reader::from_reader(text);
    let at_line = |line: u64, what: &dyn std::fmt::Display| {
        Failure::in_file(path, format!("line {line}: {what}"))
    };
    let header = reader.headers().map_err(|error| at_line(1, &error))?.clone();
    let columns = columns()?;
    if let Some(unknown) = header.iter().find(|name| columns.iter().all(|column| column != name)) {
        return Err(at_line(1, &format!("column `{unknown}` is none of the schema")));
    }
    if let Some(missing) = columns.iter().find(|column| header.iter().all(|name| name != *column)) {
        return Err(at_line(1, &format!("column `{missing}` is missing")));
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| {
            let line = error.position().map_or(0, csv::Position::line);
            at_line(line, &words(&error, &header))
        })?;
        let line = record.position().map_or(0, csv::Position::line);
        let row = record.deserialize(Some(&header));
        rows.push(row.map_err(|error| at_line(line, &words(&error, &header)))?);
    }
    Ok(rows)
}

/// An error without the place, which is said before it, and with the name of the column.
fn words(error: &csv::Error, header: &csv::StringRecord) -> String {
    match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => {
            let column = err.field().and_then(|at| header.get(usize::try_from(at).ok()?));
            let column = column.map_or(String::new(), |column| format!("column `{column}`: "));
            format!("{column}{}", err.kind())
        }
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} fields, the header has {expected_len}")
        }
        _ => error.to_string(),
    }
}

/// Names of the columns, in order: the fields of [`Row`].
fn columns() -> Result<Vec<String>, Failure> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let written = writer.serialize(Row::default_of_schema());
    written.map_err(|error| Failure::Fault(error.to_string()))?;
    let text = writer.into_inner().map_err(|error| Failure::Fault(error.to_string()))?;
    let mut reader = csv::Reader::from_reader(text.as_slice());
    let header = reader.headers().map_err(|error| Failure::Fault(error.to_string()))?;
    Ok(header.iter().map(str::to_owned).collect())
}

fn record(row: &Row) -> Result<Vec<u8>, Failure> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    let written = writer.serialize(row);
    written.map_err(|error| Failure::Fault(error.to_string()))?;
    writer.into_inner().map_err(|error| Failure::Fault(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("frazil-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder.join(name)
    }

    fn row(config: &str, status: Status) -> Row {
        let mut row = Row::default_of_schema();
        (row.config, row.status, row.engine) = (config.into(), status, "sdpa_fwd_cpu".into());
        row.lengths = config.into();
        row
    }

    #[test]
    fn rows_come_back_as_they_were_whatever_they_hold() {
        let path = path("round_trip.csv");
        let _ = std::fs::remove_file(&path);
        let mut rows = vec![row("one", Status::Measured), row("two", Status::Declined)];
        rows[0].time_us = Some(1.0 / 3.0);
        rows[0].max_diff = Some(f64::INFINITY);
        rows[0].device = "Processor \"X\", 2 threads".into();
        rows[1].note = "a line\nof commas, and \"quotes\"".into();
        let (mut store, before) = Store::open(&path).unwrap();
        assert!(before.is_empty());
        store.add(&rows[0]).unwrap();
        drop(store);
        // A file is begun once and added to later.
        let (mut store, before) = Store::open(&path).unwrap();
        assert_eq!(before.len(), 1);
        store.add(&rows[1]).unwrap();
        assert_eq!(format!("{:?}", read(&path).unwrap()), format!("{rows:?}"));
    }

    #[test]
    fn what_stands_is_known_and_what_went_wrong_is_not() {
        let statuses = [
            ("measured", Status::Measured),
            ("declined", Status::Declined),
            ("wrong", Status::Wrong),
            ("error", Status::Error),
            ("skipped", Status::Skipped),
        ];
        let rows: Vec<Row> = statuses.map(|(name, status)| row(name, status)).to_vec();
        let known = Known::of(&rows);
        let answered: Vec<bool> = rows.iter().map(|row| known.is_answered(row)).collect();
        assert_eq!(answered, [true, true, false, false, false]);
        // Another device, engine or cache is another measurement.
        for change in [
            |row: &mut Row| row.device = "another".into(),
            |row: &mut Row| row.engine = "another".into(),
            |row: &mut Row| row.cache = "warm".into(),
            |row: &mut Row| row.kv_seqlen = 7,
        ] {
            let mut other = rows[0].clone();
            change(&mut other);
            assert!(!known.is_answered(&other));
        }
        // Skipped again is said once.
        let path = path("skipped.csv");
        let _ = std::fs::remove_file(&path);
        let (mut store, _) = Store::open(&path).unwrap();
        store.add(&rows[4]).unwrap();
        store.known = Known::of(&rows);
        store.add(&rows[4]).unwrap();
        store.add(&row("skipped", Status::Measured)).unwrap();
        assert_eq!(read(&path).unwrap().len(), 2);
    }

    #[test]
    fn other_tables_are_refused_with_line_and_column() {
        let header = columns().unwrap().join(",");
        let good = record(&row("x", Status::Measured)).unwrap();
        let good = String::from_utf8(good).unwrap();
        let cases = [
            ("name,time\n1,2\n".to_owned(), "line 1: column `name` is none of the schema"),
            (header.replace("date,", "") + "\n", "line 1: column `date` is missing"),
            (format!("{header}\n{good}a,b\n"), "line 3: 2 fields, the header has"),
            (format!("{header}\n{}", good.replace("f32", "f33")), "line 2: "),
            (format!("{header}\n{}", good.replace("measured", "done")), "line 2: "),
            (format!("{header}\n{}", good.replace(",none,", ",some,")), "mask `some` is not none"),
        ];
        for (at, (text, want)) in cases.iter().enumerate() {
            let path = path(&format!("bad{at}.csv"));
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
