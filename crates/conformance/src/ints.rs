//! The int32 tensors of one side: lengths, running sums, starts and page tables, bad data included.

use crate::case::{Case, PageOrder, SideCase};
use crate::data::Random;
use crate::declare::CaseError;
use crate::sizes::SideSizes;

/// What the tensors of one side say; empty where there is no such tensor.
#[derive(Clone, Debug, Default)]
pub(crate) struct SideInts {
    pub(crate) lengths: Vec<i32>,
    pub(crate) prefix: Vec<i32>,
    pub(crate) starts: Vec<i32>,
    /// `[batch, pages]`, row-major whatever the strides of the tensor.
    pub(crate) table_k: Vec<i32>,
    /// As `table_k`.
    pub(crate) table_v: Vec<i32>,
}

impl SideInts {
    /// # Errors
    ///
    /// [`CaseError::Case`] when a pool has too few pages or a number is no int32.
    pub(crate) fn new(case: &Case, side: &SideCase, sizes: SideSizes) -> Result<Self, CaseError> {
        let mut ints = Self::default();
        match side {
            SideCase::Dense => {}
            SideCase::Padded { lengths, .. } | SideCase::PackedLengths { lengths, .. } => {
                ints.lengths.clone_from(lengths);
            }
            SideCase::PackedPrefix { prefix: Some(prefix), .. } => ints.prefix.clone_from(prefix),
            SideCase::PackedPrefix { lengths, base, .. } => {
                let sum = |next: &mut i32, &length: &i32| {
                    *next = next.wrapping_add(length);
                    Some(*next)
                };
                ints.prefix =
                    std::iter::once(*base).chain(lengths.iter().scan(*base, sum)).collect();
            }
            SideCase::PackedStarts { starts, lengths, .. } => {
                ints.starts.clone_from(starts);
                ints.lengths.clone_from(lengths);
            }
            SideCase::Paged { lengths, page_size, one_table, pages, .. } => {
                ints.lengths.clone_from(lengths);
                let live = |&length: &i32| {
                    let length = u64::try_from(length).unwrap_or(0).min(sizes.max_len);
                    length.div_ceil((*page_size).max(1))
                };
                let live: Vec<u64> = lengths.iter().map(live).collect();
                let pages = Pages { case, sizes, order: *pages, live: &live };
                ints.table_k = pages.table(0)?;
                ints.table_v = if *one_table { ints.table_k.clone() } else { pages.table(1)? };
            }
        }
        Ok(ints)
    }
}

struct Pages<'a> {
    case: &'a Case,
    sizes: SideSizes,
    order: PageOrder,
    /// Live pages of each sequence.
    live: &'a [u64],
}

impl Pages<'_> {
    fn table(&self, which: u64) -> Result<Vec<i32>, CaseError> {
        let (num_pages, columns) = (self.sizes.rows, self.sizes.pages);
        let pool = match self.order {
            PageOrder::Interleaved => Vec::new(),
            PageOrder::FromTheEnd => (0..num_pages).rev().collect(),
            PageOrder::Shuffled | PageOrder::OutsideFirst => self.shuffle(which),
        };
        let mut pool = pool.into_iter();
        let mut table = Vec::new();
        for (b, &live) in (0_u64..).zip(self.live) {
            for t in 0..columns {
                let page = match self.order {
                    _ if t >= live => None,
                    PageOrder::Interleaved => {
                        Some(t * self.case.batch + b).filter(|&page| page < num_pages)
                    }
                    _ => pool.next(),
                };
                if t < live && page.is_none() {
                    let name = &self.case.name;
                    return Err(CaseError::Case(format!(
                        "{name}: kv.num_pages = {num_pages} is too few for page {t} of sequence {b}"
                    )));
                }
                let entry = match page {
                    Some(_) if t == 0 && self.order == PageOrder::OutsideFirst => {
                        self.outside(b % 2 == 0, b)
                    }
                    Some(page) => i64::try_from(page).unwrap_or(i64::MAX),
                    None => self.outside((b + t) % 2 == 0, b + t),
                };
                table.push(i32::try_from(entry).map_err(|_| {
                    CaseError::Case(format!("{}: page {entry} is no int32", self.case.name))
                })?);
            }
        }
        Ok(table)
    }

    /// A page that the pool does not have, past its end or before its start.
    fn outside(&self, past: bool, by: u64) -> i64 {
        let by = i64::try_from(by).unwrap_or(0);
        if past { i64::try_from(self.sizes.rows).unwrap_or(0) + by } else { -1 - by }
    }

    /// The pages of the pool in a seeded order (Fisher and Yates).
    fn shuffle(&self, which: u64) -> Vec<u64> {
        let mut random = Random::at(self.case.seed, &[0x7ab1e, which]);
        let mut pool: Vec<u64> = (0..self.sizes.rows).collect();
        for last in (1..pool.len()).rev() {
            let other = random.below(last as u64 + 1);
            pool.swap(last, usize::try_from(other).unwrap_or(0));
        }
        pool
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sizes::Sizes;

    #[rstest::rstest]
    #[case("from_the_end", &[69_999, 69_998], 69_997)]
    #[case("interleaved", &[0, 2], 1)]
    fn pages_lie_where_their_order_says(
        #[case] pages: &str,
        #[case] first: &[i32],
        #[case] next: i32,
    ) {
        let case: Case = serde_json::from_value(json!({
            "name": "pages", "dtype": "f16", "batch": 2, "num_q_heads": 1, "num_kv_heads": 1,
            "head_dim_qk": 8, "seqlen_q": 1, "seqlen_kv": 3, "kv": { "form": "paged",
            "lengths": [2, 1], "page_size": 1, "num_pages": 70000, "pages": pages },
        }))
        .unwrap();
        let ints = SideInts::new(&case, &case.kv, Sizes::of_run(&case).kv).unwrap();
        for table in [ints.table_k, ints.table_v] {
            assert_eq!((&table[..2], table[3]), (first, next));
            let dead = [table[2], table[4], table[5]];
            assert!(dead.iter().all(|id| !(0..70_000).contains(id)), "{dead:?}");
        }
    }
}
