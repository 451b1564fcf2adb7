//! The support table in the documents: what the command line answers, between two markers.

use std::fs;

use crate::{Failure, cargo, root, say};

const BEGIN: &str = "<!-- support table: begin, written by `cargo xtask support-table` -->\n";
const END: &str = "<!-- support table: end -->";

/// Each document with the form of the table that it shows.
const DOCUMENTS: [(&str, &str); 2] = [("README.md", "summary"), ("docs/SUPPORT.md", "full")];

/// Writes the tables; with `check` fails instead where one is not what asking gives.
pub(crate) fn support_table(check: bool) -> Result<(), Failure> {
    let mut stale = Vec::new();
    for (name, form) in DOCUMENTS {
        let path = root().join(name);
        let found = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
        let table = ask(form)?;
        let fresh = spliced(&found, &table).ok_or_else(|| format!("{name} lacks the markers"))?;
        if fresh == found {
            say(&format!("{name}: as the engines answer"))?;
        } else if check {
            stale.push(name);
        } else {
            fs::write(&path, fresh).map_err(|error| format!("{name}: {error}"))?;
            say(&format!("{name}: written"))?;
        }
    }
    if stale.is_empty() {
        return Ok(());
    }
    let stale = stale.join(", ");
    Err(format!("not what the engines answer: {stale}; `cargo xtask support-table` writes it"))
}

/// The table as the engines of the command line answer.
fn ask(form: &str) -> Result<String, Failure> {
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "frazil-cli", "--", "engines", "--table", form]);
    // What cargo has to say is for whoever runs this.
    let output = command.stderr(std::process::Stdio::inherit()).output();
    let output = output.map_err(|error| format!("frazil engines: {error}"))?;
    if !output.status.success() {
        return Err(format!("frazil engines --table {form}: {}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("frazil engines: {error}"))
}

/// The document with the table between its markers; `None` where it has none.
fn spliced(document: &str, table: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_between_the_markers_is_replaced() {
        let document = format!("head\n{BEGIN}old\n{END}\ntail\n");
        let fresh = spliced(&document, "| new |\n");
        assert_eq!(fresh, Some(format!("head\n{BEGIN}\n| new |\n\n{END}\ntail\n")));
        assert_eq!(spliced(fresh.as_deref().unwrap(), "| new |\n"), fresh);
        assert_eq!(spliced("no markers", "| new |\n"), None);
    }
}
