//! What the machine code of a kernel must be like.

use crate::allowance::Allowance;
use crate::table::Row;

/// Most bytes of local memory that may be accessed outside of loops with products.
const MAX_LOCAL_BYTES_OUTSIDE: u32 = 64;
/// How much longer than in the snapshot a loop may be, in hundredths.
const MAX_GROWTH_PERCENT: u32 = 3;

/// What is wrong with the rows, each in one line.
///
/// An allowance raises the limits of its kernel; one that its kernel does not need is wrong itself.
/// Loops are compared with the snapshot's of the same compiler. Where it has some, it must have all, so
/// that a new kernel is looked at once; where it has none, nothing is compared: [`is_compared`] says
/// which.
pub fn violations(rows: &[Row], snapshot: &[Row], allowances: &[Allowance]) -> Vec<String> {
    let mut found: Vec<String> =
        rows.iter().flat_map(|row| local_memory(row, limits(row, allowances))).collect();
    let is_clean = |row: &Row| local_memory(row, PLAIN_LIMITS).is_empty();
    let unneeded = |one: &&Allowance| rows.iter().filter(|row| one.is_of(row)).all(is_clean);
    let unneeded = allowances.iter().filter(unneeded);
    found.extend(unneeded.map(|one| format!("{}: its allowance is not needed", one.place())));
    if is_compared(rows, snapshot) {
        found.extend(differences(rows, snapshot));
    }
    found
}

/// Most accesses to local memory in a loop, and most bytes outside.
type Limits = (u32, u32);

const PLAIN_LIMITS: Limits = (0, MAX_LOCAL_BYTES_OUTSIDE);

fn limits(row: &Row, allowances: &[Allowance]) -> Limits {
    let allowance = allowances.iter().find(|allowance| allowance.is_of(row));
    allowance.map_or(PLAIN_LIMITS, |one| {
        (one.local, one.local_bytes_outside.max(MAX_LOCAL_BYTES_OUTSIDE))
    })
}

fn local_memory(row: &Row, (in_loop, outside): Limits) -> Vec<String> {
    let (place, mut found) = (row.place(), Vec::new());
    if row.local > in_loop {
        let local = row.local;
        found.push(format!(
            "{place}: {local} accesses to local memory in the loop, limit {in_loop}"
        ));
    }
    // Once a kernel, not once a loop.
    if row.local_bytes_outside > outside && row.position.unwrap_or(0) == 0 {
        let bytes = row.local_bytes_outside;
        found.push(format!("{place}: {bytes} bytes of local memory outside, limit {outside}"));
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
        violations(rows, snapshot, &[]).join("\n")
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
        let outside = |at| Row { local_bytes_outside: 68, ..row(Some(at), 100) };
        assert_eq!(violations(&[outside(0), outside(1)], &[], &[]).len(), 1);
    }

    #[test]
    fn an_allowance_is_for_its_kernel_up_to_what_it_says_and_as_long_as_it_is_needed() {
        let spills = |local| Row { local, local_bytes_outside: 80, ..row(Some(0), 100) };
        let allowance = |target: &str| Allowance {
            kernel: "frazil_x".into(),
            config: "block_m=64".into(),
            target: target.into(),
            local: 2,
            local_bytes_outside: 80,
            reason: "a test".into(),
        };
        let said = |row: Row, target| violations(&[row], &[], &[allowance(target)]).join("\n");
        assert_eq!(said(spills(2), "sm_80"), "");
        assert!(
            said(spills(3), "sm_80").ends_with("3 accesses to local memory in the loop, limit 2")
        );
        let of_another = said(spills(2), "sm_90a");
        assert!(of_another.contains("limit 0") && of_another.ends_with("allowance is not needed"));
        assert!(said(row(Some(0), 100), "sm_80").ends_with("sm_80: its allowance is not needed"));
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
