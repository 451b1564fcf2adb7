//! A workspace against what the list must be.

use frazil_core::{ErrorWord, GeometryError, Plan, Region};

use super::{Cut, ListedBand, Order, WorkList};
use crate::seqlens::Problem;

/// What is wrong with a list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A tensor of the problem is none.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The plan has no such region.
    #[error("no region `{0}`")]
    Region(&'static str),
    /// The number of bands, heads of a section, claimed units, padding.
    #[error("header {found:?}, expected {expected:?}")]
    Header {
        /// What stands there.
        found: Vec<u32>,
        /// What should.
        expected: Vec<u32>,
    },
    /// A band that is listed and should not be, or should be and is not, or twice.
    #[error("{missing} bands are missing, {foreign} are foreign; first {first:?}")]
    Bands {
        /// Bands that are not there.
        missing: usize,
        /// Bands that should not be.
        foreign: usize,
        /// One of them.
        first: Option<ListedBand>,
    },
    /// A band stands before one that costs more or, in natural order, where another one should.
    #[error("record {at} should not stand there: {band:?}")]
    Order {
        /// Where it stands.
        at: usize,
        /// The band.
        band: ListedBand,
    },
    /// Any other byte of the workspace, also one that nothing may write.
    #[error("byte {at} of `{region}`, of {bytes} bytes")]
    Byte {
        /// The region, or `padding`.
        region: String,
        /// From its start.
        at: u64,
        /// Of the region.
        bytes: u64,
    },
}

/// What a list that is right has shown: that a test had something to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Bands.
    pub num_bands: usize,
    /// Classes of cost among them.
    pub num_classes: usize,
    /// There were bands without room.
    pub is_clipped: bool,
}

const RECORD_BYTES: u64 = 32;

impl Problem {
    /// Looks at every byte of a workspace that [`Problem::execute`] gave for a plan which runs the
    /// list's kernel alone.
    ///
    /// | region | holds, beside those of [`Problem::expected_workspace`] |
    /// |---|---|
    /// | `work_list_header` | four `u32`: bands, head units of a section, 0, and 1 where costs are alike |
    /// | `work_list_records` | eight `i32` for each band, as [`ListedBand`], in the order of the cut |
    /// | `work_list_places` | in natural order: int64, as [`WorkList::places`] |
    /// | `band_prefix` | where the batch is greater than `shared_sequences`: int32, bands before each sequence and of all |
    ///
    /// # Errors
    ///
    /// The first [`Fault`].
    pub fn check_work_list(
        &self,
        plan: &Plan,
        cut: &Cut,
        shared_sequences: u64,
        workspace: &[u8],
    ) -> Result<Listed, Fault> {
        let region = |name| {
            let found = plan.workspace().regions().find(|(of, _)| *of == name);
            found.map(|(_, region)| region).ok_or(Fault::Region(name))
        };
        let (header, records) = (region("work_list_header")?, region("work_list_records")?);
        let expected = self.work_list(cut, index(records.bytes() / RECORD_BYTES));
        check_header(&expected, part(workspace, header))?;
        let found = read_bands(part(workspace, records), expected.bands.len());
        check_bands(&expected, &found, cut.order)?;
        let mut image = self.expected_workspace(plan)?;
        let mut put = |region: Region, bytes: &[u8]| {
            image[index(region.offset())..][..bytes.len()].copy_from_slice(bytes);
        };
        put(header, &part(workspace, header)[..16]);
        // They are judged; room that is not taken must be as it was.
        put(records, &part(workspace, records)[..found.len() * index(RECORD_BYTES)]);
        if expected.is_clipped {
            let word = self.error_word().with(ErrorWord::Q_ROWS);
            put(region("error_word")?, &word.0.to_le_bytes());
        }
        if cut.order == Order::Natural {
            let places: Vec<u8> = expected.places().iter().flat_map(|n| n.to_le_bytes()).collect();
            put(region("work_list_places")?, &places);
        }
        if self.batch > shared_sequences {
            let bytes: Vec<u8> =
                expected.first_bands.iter().flat_map(|n| n.to_le_bytes()).collect();
            put(region("band_prefix")?, &bytes);
        }
        compare(plan, workspace, &image)?;
        let mut classes: Vec<_> = found.iter().map(ListedBand::cost_class).collect();
        classes.dedup();
        let (num_bands, num_classes) = (found.len(), classes.len());
        Ok(Listed { num_bands, num_classes, is_clipped: expected.is_clipped })
    }
}

fn check_header(expected: &WorkList, header: &[u8]) -> Result<(), Fault> {
    let num_bands = u32::try_from(expected.bands.len()).unwrap_or(u32::MAX);
    let expected = vec![num_bands, expected.heads_per_section, 0, expected.costs_alike.into()];
    let words = header.as_chunks::<4>().0.iter();
    let found: Vec<u32> = words.take(4).map(|word| u32::from_le_bytes(*word)).collect();
    if found == expected { Ok(()) } else { Err(Fault::Header { found, expected }) }
}

fn read_bands(records: &[u8], count: usize) -> Vec<ListedBand> {
    let words = records.as_chunks::<4>().0;
    let words: Vec<i32> = words.iter().map(|word| i32::from_le_bytes(*word)).collect();
    let bands = words.as_chunks::<8>().0.iter().take(count);
    let band =
        |&[batch_idx, q_begin, q_start, q_len, kv_start, kv_len, tile_begin, tile_end]: &[i32;
              8]| {
            ListedBand {
                batch_idx,
                q_begin,
                q_start,
                q_len,
                kv_start,
                kv_len,
                tile_begin,
                tile_end,
            }
        };
    bands.map(band).collect()
}

/// The same bands, each once, none before one that costs more or, in natural order, in the same order.
pub(super) fn check_bands(
    expected: &WorkList,
    found: &[ListedBand],
    order: Order,
) -> Result<(), Fault> {
    let sorted = |bands: &[ListedBand]| {
        let mut bands = bands.to_vec();
        bands.sort_unstable();
        bands
    };
    let (wanted, listed) = (sorted(&expected.bands), sorted(found));
    if wanted != listed {
        let lacks = |bands: &[ListedBand], of: &[ListedBand]| -> Vec<ListedBand> {
            let lacks = |band: &&ListedBand| bands.binary_search(band).is_err();
            of.iter().filter(lacks).copied().collect()
        };
        let (missing, foreign) = (lacks(&listed, &wanted), lacks(&wanted, &listed));
        let first = missing.first().or(foreign.first()).copied();
        return Err(Fault::Bands { missing: missing.len(), foreign: foreign.len(), first });
    }
    let is_misplaced = |at: &usize| match order {
        Order::DearestFirst if expected.costs_alike => false,
        Order::DearestFirst => *at > 0 && found[at - 1].cost_class() < found[*at].cost_class(),
        Order::Natural => found[*at] != expected.bands[*at],
    };
    match (0..found.len()).find(is_misplaced) {
        Some(at) => Err(Fault::Order { at, band: found[at] }),
        None => Ok(()),
    }
}

fn compare(plan: &Plan, found: &[u8], expected: &[u8]) -> Result<(), Fault> {
    let Some(at) = found.iter().zip(expected).position(|(found, expected)| found != expected)
    else {
        return Ok(());
    };
    let at = at as u64;
    let holds = |region: &Region| (region.offset()..region.offset() + region.bytes()).contains(&at);
    let mut regions = plan.workspace().regions();
    let region = regions.find(|(_, region)| holds(region));
    let (region, at, bytes) = region
        .map_or(("padding", at, 0), |(name, region)| (name, at - region.offset(), region.bytes()));
    Err(Fault::Byte { region: region.to_owned(), at, bytes })
}

fn part(workspace: &[u8], region: Region) -> &[u8] {
    &workspace[index(region.offset())..][..index(region.bytes())]
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
