//! Nodes of a graph in an order of work.

use std::collections::BTreeMap;

/// The nodes so that each comes after those it depends on; of several that could come next, the
/// first given. Nodes of a circle, which no graph of the driver has, are left out.
pub(super) fn in_order(nodes: &[u64], edges: &[(u64, u64)]) -> Vec<u64> {
    let place: BTreeMap<u64, usize> = nodes.iter().zip(0..).map(|(&node, at)| (node, at)).collect();
    let mut waits_for = vec![0_usize; nodes.len()];
    let mut followers = vec![Vec::new(); nodes.len()];
    for (from, to) in edges {
        if let (Some(&from), Some(&to)) = (place.get(from), place.get(to)) {
            waits_for[to] += 1;
            followers[from].push(to);
        }
    }
    let mut ready: std::collections::BTreeSet<usize> =
        (0..nodes.len()).filter(|&at| waits_for[at] == 0).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(at) = ready.pop_first() {
        order.push(nodes[at]);
        for &follower in &followers[at] {
            waits_for[follower] -= 1;
            if waits_for[follower] == 0 {
                ready.insert(follower);
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_comes_after_all_that_it_depends_on() {
        for (nodes, edges, expected) in [
            (&[][..], &[][..], &[][..]),
            // The driver gives nodes in any order.
            (&[30, 10, 20], &[(10, 20), (20, 30)], &[10, 20, 30]),
            // Two edges between a pair, and a node of its own.
            (&[7, 5, 6], &[(5, 7), (5, 7)], &[5, 7, 6]),
            // Two ways to one end.
            (&[4, 3, 2, 1], &[(1, 2), (1, 3), (2, 4), (3, 4)], &[1, 3, 2, 4]),
        ] {
            assert_eq!(in_order(nodes, edges), expected, "{nodes:?} {edges:?}");
        }
    }
}
