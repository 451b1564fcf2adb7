//! What the machine code of a kernel must be like.

use crate::table::Row;

/// Most bytes of local memory that may be accessed outside of loops with products.
const MAX_LOCAL_BYTES_OUTSIDE: u32 = 64;
/// How much longer than in the snapshot a loop may be, in hundredths.
const MAX_GROWTH_PERCENT: u32 = 3;

/// What is wrong with the rows, each in one line.
///
/// Loops are compared with the snapshot's of the same compiler. Where it has some, it must have all, so
/// that a new kernel is looked at once; where it has none, nothing is compared: [`is_compared`] says
/// which.
pub fn violations(rows: &[Row], snapshot: &[Row]) -> Vec<String> {
    let mut found = Vec::new();
    for row in rows {
        let (place, local) = (row.place(), row.local);
        if local > 0 {
            found.push(format!(
                "{place}: {local} accesses to local memory in the loop, none may be"
            ));
        }
        let outside = row.local_bytes_outside;
        if outside > MAX_LOCAL_BYTES_OUTSIDE && row.position.unwrap_or(0) == 0 {
            let limit = MAX_LOCAL_BYTES_OUTSIDE;
            found.push(format!("{place}: {outside} bytes of local memory outside, limit {limit}"));
        }
    }
    if is_compared(rows, snapshot) {
        found.extend(differences(rows, snapshot));
    }
    found
}

/// Whether the snapshot knows the compiler, or there is no loop to compare.
pub fn is_compared(rows: &[Row], snapshot: &[Row]) -> bool {
    let is_known = |row: &Row| snapshot.iter().any(|old| old.nvrtc == row.nvrtc);
    rows.iter().any(is_known) || rows.iter().all(|row| row.position.is_none())
}

fn differences(rows: &[Row], snapshot: &[Row]) -> Vec<String> {
    let is_same = |a: &Row, b: &Row| (a.key(), &a.nvrtc) == (b.key(), &b.nvrtc);
    let mut found = Vec::new();
    for row in rows.iter().filter(|row| row.position.is_some()) {
        let Some(old) = snapshot.iter().find(|old| is_same(old, row)) else {
            found.push(format!("{}: the snapshot lacks it", row.place()));
            continue;
        };
        // Rounded down, so that no loop grows by more than is said.
        let limit = old.length * (100 + MAX_GROWTH_PERCENT) / 100;
        if row.length > limit {
            let (length, before) = (row.length, old.length);
            found.push(format!("{}: {length} instructions, {before} before", row.place()));
        }
    }
    let is_gone = |old: &&Row| {
        rows.iter().any(|row| row.nvrtc == old.nvrtc) && !rows.iter().any(|row| is_same(old, row))
    };
    let gone = snapshot.iter().filter(is_gone);
    found.extend(gone.map(|old| format!("{}: only the snapshot has it", old.place())));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(position: Option<usize>, length: u32) -> Row {
        Row {
            kernel: "frazil_x".into(),
            config: "block_m=64".into(),
            target: "sm_80".into(),
            nvrtc: "13.5".into(),
            registers: 128,
            spill_bytes: 0,
            position,
            length,
            mma: 8,
            ldsm: 4,
            mufu: 2,
            ldgsts: 2,
            local: 0,
            local_bytes_outside: 0,
        }
    }

    fn said(rows: &[Row], snapshot: &[Row]) -> String {
        violations(rows, snapshot).join("\n")
    }

    #[test]
    fn local_memory_is_found_in_a_loop_at_once_and_outside_past_a_limit() {
        assert_eq!(said(&[row(Some(0), 100)], &[]), "");
        let inside = Row { local: 1, ..row(Some(1), 100) };
        assert!(said(&[inside], &[]).contains("loop 1: 1 accesses to local memory in the loop"));
        for (bytes, is_found) in [(64, false), (68, true)] {
            for position in [Some(0), None] {
                let outside = Row { local_bytes_outside: bytes, ..row(position, 100) };
                assert_eq!(said(&[outside], &[]).contains("bytes of local memory"), is_found);
            }
        }
        // Once a kernel, not once a loop.
        let outside = |at| Row { local_bytes_outside: 68, ..row(Some(at), 100) };
        assert_eq!(violations(&[outside(0), outside(1)], &[]).len(), 1);
    }

    #[test]
    fn a_loop_may_shrink_and_grow_by_three_hundredths() {
        let snapshot = [row(Some(0), 100)];
        for (length, is_found) in [(50, false), (103, false), (104, true)] {
            let said = said(&[row(Some(0), length)], &snapshot);
            assert_eq!(said.contains(&format!("{length} instructions, 100 before")), is_found);
        }
        assert_eq!(said(&[row(Some(0), 33)], &[row(Some(0), 32)]).matches("before").count(), 1);
    }

    #[test]
    fn what_the_snapshot_lacks_and_what_it_alone_has_are_found() {
        let snapshot = [row(Some(0), 100), row(Some(1), 100)];
        assert!(said(&snapshot[..1], &snapshot).ends_with("loop 1: only the snapshot has it"));
        assert!(said(&snapshot, &snapshot[..1]).ends_with("loop 1: the snapshot lacks it"));
        // A kernel without loops has nothing to compare.
        assert_eq!(said(&[row(Some(0), 100), row(None, 0)], &snapshot[..1]), "");
    }

    #[test]
    fn another_compiler_is_not_compared() {
        let newer = Row { nvrtc: "13.6".into(), ..row(Some(0), 200) };
        let snapshot = [row(Some(0), 100)];
        assert!(!is_compared(std::slice::from_ref(&newer), &snapshot));
        assert_eq!(said(&[newer], &snapshot), "");
    }
}
