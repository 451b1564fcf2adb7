//! Which keys a query sees.

use std::ops::Range;

use frazil_core::Band;

/// The keys that the queries of one sequence see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visible {
    /// Keys before and after the query's own position that it still sees; open ends reach past
    /// every key.
    before: i64,
    after: i64,
    len_kv: i64,
}

/// Farther than any key: extents are int32.
const OPEN: i64 = 1 << 40;

impl Visible {
    /// For a sequence of these lengths.
    pub(crate) fn new(band: Option<Band>, len_q: i64, len_kv: i64) -> Self {
        let off = band.map_or(0, |band| band.align.offset(len_q, len_kv));
        let bound = |bound: Option<u32>| bound.map_or(OPEN, i64::from);
        let left = bound(band.and_then(|band| band.left));
        let right = bound(band.and_then(|band| band.right));
        Self { before: left - off, after: right + off, len_kv }
    }

    /// The keys that any of the queries sees; the queries are not empty.
    ///
    /// Exact: the ranges of neighbours overlap or touch, and both ends only grow with the query.
    pub(crate) fn of(self, queries: Range<i64>) -> Range<i64> {
        let begin = (queries.start - self.before).clamp(0, self.len_kv);
        let end = (queries.end + self.after).clamp(begin, self.len_kv);
        begin..end
    }
}

#[cfg(test)]
mod tests {
    use frazil_core::Align;

    use super::*;

    fn bands() -> impl Iterator<Item = Option<Band>> {
        let bounds = [None, Some(0), Some(1), Some(3), Some(40), Some(u32::MAX)];
        let aligned = [Align::TopLeft, Align::BottomRight].into_iter().flat_map(move |align| {
            bounds.into_iter().flat_map(move |left| {
                bounds.into_iter().map(move |right| Some(Band { align, left, right }))
            })
        });
        aligned.chain([None])
    }

    fn sees(band: Option<Band>, (len_q, len_kv): (i64, i64), i: i64, j: i64) -> bool {
        let Some(Band { align, left, right }) = band else { return true };
        let off = if align == Align::BottomRight { len_kv - len_q } else { 0 };
        left.is_none_or(|left| j >= i + off - i64::from(left))
            && right.is_none_or(|right| j <= i + off + i64::from(right))
    }

    #[test]
    fn ranges_are_those_of_the_definition() {
        for band in bands() {
            for (len_q, len_kv) in [(1, 0), (1, 1), (1, 9), (5, 3), (7, 7), (4, 20), (20, 4)] {
                let visible = Visible::new(band, len_q, len_kv);
                for begin in 0..len_q {
                    for end in begin + 1..=len_q {
                        let found = visible.of(begin..end);
                        let seen =
                            |&j: &i64| (begin..end).any(|i| sees(band, (len_q, len_kv), i, j));
                        let expected: Vec<i64> = (0..len_kv).filter(seen).collect();
                        let what = format!("{band:?} {len_q}x{len_kv} {begin}..{end}");
                        assert_eq!(found.collect::<Vec<_>>(), expected, "{what}");
                    }
                }
            }
        }
    }
}
