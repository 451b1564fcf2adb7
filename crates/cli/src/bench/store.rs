//! Rows in CSV files.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::row::{Row, Status};
use crate::failure::Failure;
use crate::files;
use crate::output::one_line;

/// A file that rows are added to, each whole: whatever ends the program, the file is a table.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    file: File,
    pub(super) known: Known,
}

/// What a file has already, by version and [`Row::identity`].
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
            rows.map(key).collect()
        };
        Self {
            answered: with(&[Status::Measured, Status::Declined]),
            skipped: with(&[Status::Skipped]),
        }
    }

    /// Whether a row need not be made again.
    pub(super) fn is_answered(&self, row: &Row) -> bool {
        self.answered.contains(&key(row))
    }

    /// Whether a row says nothing new.
    fn is_stale(&self, row: &Row) -> bool {
        row.status == Status::Skipped && self.skipped.contains(&key(row))
    }
}

/// What another version of frazil measured is measured again.
fn key(row: &Row) -> String {
    format!("{}\n{}", row.versions, row.identity())
}

impl Store {
    /// A file to add rows to, new or begun, and what it holds.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<Row>), Failure> {
        // Said before it is opened: a pipe without a reader would wait for one.
        if path.exists() {
            files::read(path)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(|error| unwritable(path, &error))?;
        let rows = begin(path, &file)?;
        Ok((Self { path: path.to_owned(), file, known: Known::default() }, rows))
    }

    /// Adds a row, in one write.
    pub(super) fn add(&mut self, row: &Row) -> Result<(), Failure> {
        if self.known.is_stale(row) {
            return Ok(());
        }
        let line = record(row)?;
        let _lock = Lock::of(&self.file);
        let written = (&self.file).write_all(&line);
        written.map_err(|error| Failure::Fault(format!("{}: {error}", self.path.display())))
    }
}

/// Reads what a file holds and leaves it a table that lines can be added to.
fn begin(path: &Path, file: &File) -> Result<Vec<Row>, Failure> {
    let _lock = Lock::of(file);
    let text = files::read(path)?;
    let columns = columns()?;
    let header = columns.join(",");
    let (whole, last) =
        text.split_at(text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1));
    let is_torn = match whole {
        [] => header.as_bytes().starts_with(last),
        _ => is_part_of_row(last, columns.len()),
    };
    let keep = if is_torn { whole } else { &text };
    let rows = if keep.is_empty() { Vec::new() } else { parse(path, keep)? };
    if keep.len() < text.len() {
        // A system that went down in the middle of a write; the row is measured again.
        super::say(&format!("{}: the last line is torn and was cut off", path.display()));
        file.set_len(keep.len() as u64).map_err(|error| unwritable(path, &error))?;
    }
    let missing = match keep {
        [] => header + "\n",
        [.., b'\n'] => String::new(),
        // An editor may leave out the last end of line.
        _ => "\n".into(),
    };
    let mut file = file;
    file.write_all(missing.as_bytes()).map_err(|error| unwritable(path, &error))?;
    Ok(rows)
}

/// Whether a line lacks fields, or the end of one that is quoted.
fn is_part_of_row(line: &[u8], num_columns: usize) -> bool {
    let has_open_quote = line.iter().filter(|&&byte| byte == b'"').count() % 2 == 1;
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line);
    let fields = reader.records().next().and_then(Result::ok).map_or(0, |row| row.len());
    has_open_quote || fields < num_columns
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::in_file(path, format!("cannot be written: {error}"))
}

/// Keeps other benches that add to a file out, as long as it lives. Where the file system has no
/// locks, one write a line must do.
struct Lock<'a>(&'a File);

impl<'a> Lock<'a> {
    fn of(file: &'a File) -> Self {
        let _ = file.lock();
        Self(file)
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
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
    if header.is_empty() {
        return Err(Failure::in_file(path, "is empty; a line that names the columns is needed"));
    }
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
        let row: Row = record
            .deserialize(Some(&header))
            .map_err(|error| at_line(line, &words(&error, &header)))?;
        if let Some((column, number)) = row.misfit() {
            return Err(at_line(
                line,
                &format!("column `{column}`: {number} is no number above 0"),
            ));
        }
        rows.push(row);
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

/// A row as a line; so that a torn one is told by its end, what it says to people stays on it.
fn record(row: &Row) -> Result<Vec<u8>, Failure> {
    let row = &Row { note: one_line(&row.note).into_owned(), ..row.clone() };
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
        rows[1].note = "a line\\nof commas, and \"quotes\"".into();
        assert_eq!(format!("{:?}", read(&path).unwrap()), format!("{rows:?}"));
    }

    /// One has begun the file and not yet named its columns when the other comes.
    #[test]
    fn benches_that_begin_one_file_at_once_leave_one_table() {
        let path = path("at_once.csv");
        let _ = std::fs::remove_file(&path);
        let file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let first = Lock::of(&file);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| Store::open(&path).unwrap().1.len());
            std::thread::sleep(std::time::Duration::from_millis(200));
            assert!(!other.is_finished(), "it did not wait");
            let header = columns().unwrap().join(",") + "\n";
            (&file).write_all(header.as_bytes()).unwrap();
            (&file).write_all(&record(&row("x", Status::Measured)).unwrap()).unwrap();
            drop(first);
            assert_eq!(other.join().unwrap(), 1);
        });
        assert_eq!(read(&path).unwrap().len(), 1);
    }

    #[test]
    fn only_what_is_torn_is_cut_off() {
        let header = columns().unwrap().join(",") + "\n";
        let line = String::from_utf8(record(&row("x", Status::Measured)).unwrap()).unwrap();
        let (table, open) = (format!("{header}{line}"), line.replace(",none,", ",\"none,"));
        for (at, (text, rows, becomes)) in [
            (String::new(), Some(0), header.clone()),
            (header[..30].to_owned(), Some(0), header.clone()),
            (header.trim_end().to_owned(), Some(0), header.clone()),
            (table.clone(), Some(1), table.clone()),
            (table.trim_end().to_owned(), Some(1), table.clone()),
            (format!("{table}{}", &line[..30]), Some(1), table.clone()),
            (format!("{table}{}", open.trim_end()), Some(1), table.clone()),
            (table.trim_end().replace("f32", "f33"), None, table.trim_end().replace("f32", "f33")),
            ("somebody's only copy".to_owned(), None, "somebody's only copy".to_owned()),
            ("a,b\n1,2".to_owned(), None, "a,b\n1,2".to_owned()),
        ]
        .into_iter()
        .enumerate()
        {
            let path = path(&format!("torn{at}.csv"));
            std::fs::write(&path, &text).unwrap();
            let found = Store::open(&path).ok().map(|(_, rows)| rows.len());
            let left = std::fs::read_to_string(&path).unwrap();
            assert_eq!((found, left), (rows, becomes), "{text}");
        }
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
        // Another device, engine, cache or version is another measurement.
        for change in [
            |row: &mut Row| row.device = "another".into(),
            |row: &mut Row| row.engine = "another".into(),
            |row: &mut Row| row.cache = "warm".into(),
            |row: &mut Row| row.versions = "frazil 0.0.1".into(),
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
        let with_time = |time: &str| {
            let timed = Row { time_us: Some(time.parse().unwrap()), ..row("x", Status::Measured) };
            format!("{header}\n{}", String::from_utf8(record(&timed).unwrap()).unwrap())
        };
        let cases = [
            ("name,time\n1,2\n".to_owned(), "line 1: column `name` is none of the schema"),
            (header.replace("date,", "") + "\n", "line 1: column `date` is missing"),
            (format!("{header}\n{good}a,b\n"), "line 3: 2 fields, the header has"),
            (format!("{header}\n{}", good.replace("f32", "f33")), "line 2: "),
            (format!("{header}\n{}", good.replace("measured", "done")), "line 2: "),
            (format!("{header}\n{}", good.replace(",none,", ",some,")), "mask `some` is not none"),
            (String::new(), "is empty"),
            (with_time("NaN"), "line 2: column `time_us`: NaN is no number above 0"),
            (with_time("inf"), "column `time_us`: inf is no number above 0"),
            (with_time("-5"), "column `time_us`: -5 is no number above 0"),
            (with_time("0"), "column `time_us`: 0 is no number above 0"),
        ];
        for (at, (text, want)) in cases.iter().enumerate() {
            let path = path(&format!("bad{at}.csv"));
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
