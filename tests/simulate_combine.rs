//! The merge of what pieces of units have left, on a simulated GPU: pieces made by hand, against the
//! same sums in f64.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[path = "common/combine/mod.rs"]
mod combine;
#[path = "common/here.rs"]
mod here;

use std::sync::Arc;

use combine::{Merge, Merges, Seen, Storage};
use frazil::target::fixtures;
use frazil_cuda::sdpa_fwd::OutputType;
use frazil_cuda::{Artifacts, simulated};
use here::or_skip;

fn gpu() -> Result<Merges, String> {
    let nvrtc = here::nvrtc()?;
    let mut target = fixtures::sm80();
    target.toolchain.nvrtc = Some(nvrtc.props());
    // A driver that loads what this NVRTC compiles.
    target.toolchain.driver = Some(nvrtc.build().version);
    Ok(Merges::new(&Arc::new(Artifacts::new(nvrtc, None)), simulated(&target).unwrap()))
}

/// Three sequences: of one query with many tiles, of five queries in two bands, of none; bands that
/// see nothing.
fn merge() -> Merge {
    Merge {
        q_lens: vec![1, 5, 0, 2],
        is_listed: true,
        tiles: vec![9, 0, 3, 1],
        num_kv_heads: 2,
        group: 4,
        pack: 4,
        block_m: 16,
        head_dim_v: 40,
        num_blocks: 5,
        blocks_per_unit: 1,
        o_type: OutputType::F32,
        storage: Storage::Dense,
        is_base2: false,
        has_sink: false,
        has_nan: false,
        seed: 1,
    }
}

/// Every place where a cut can fall, and grids with more blocks than places.
#[test]
fn pieces_are_merged_wherever_units_are_cut() {
    let merges = or_skip!(gpu());
    let mut seen = Seen::default();
    for num_blocks in 1..=50 {
        let seed = num_blocks.into();
        let merge = Merge { num_blocks, has_sink: num_blocks % 2 == 0, seed, ..merge() };
        seen.add(merges.check(&merge));
    }
    assert!(seen.num_behind_first > 0, "no unit is cut behind its first place alone");
    assert!(seen.num_empty_blocks > 0 && seen.num_whole > 0 && seen.num_merged > 100, "{seen:?}");
    assert!(seen.num_rows_without_keys > 0, "{seen:?}");
}

/// Fewer units than blocks and more, and units that whole numbers of blocks have.
#[test]
fn pieces_of_units_told_by_their_index_are_merged_wherever_they_are_cut() {
    let merges = or_skip!(gpu());
    let mut seen = Seen::default();
    for num_blocks in 1..=40 {
        for tiles in [0, 1, 9] {
            let even =
                Merge { is_listed: false, q_lens: vec![2; 3], tiles: vec![tiles], ..merge() };
            let seed = u64::from(num_blocks) + 1;
            let has_sink = num_blocks % 2 == 0;
            seen.add(merges.check(&Merge { num_blocks, has_sink, seed, ..even }));
        }
    }
    assert!(seen.num_behind_first > 0, "no unit is cut behind its first place alone");
    assert!(seen.num_empty_blocks > 0 && seen.num_whole > 0 && seen.num_merged > 100, "{seen:?}");
}

/// What one piece has seen is in no other row.
#[test]
fn rows_that_see_a_nan_in_some_piece_are_nan_and_no_others() {
    let merges = or_skip!(gpu());
    let mut seen = Seen::default();
    for (num_blocks, seed) in (5..20).zip(0..) {
        let nan = Merge { num_blocks, seed, has_nan: true, ..merge() };
        seen.add(merges.check(&Merge { has_sink: num_blocks % 2 == 0, ..nan }));
    }
    assert!(seen.num_nan_rows > 10 && seen.num_rows_without_keys > 10, "{seen:?}");
}

#[test]
fn many_pieces_of_a_unit_are_merged() {
    let merges = or_skip!(gpu());
    for (tiles, num_blocks) in [(31, 32), (32, 33), (33, 34), (64, 65), (200, 97), (200, 250)] {
        for is_listed in [true, false] {
            let one = Merge { q_lens: vec![1], tiles: vec![tiles], num_kv_heads: 1, ..merge() };
            let seen = merges.check(&Merge { num_blocks, is_listed, seed: 7, ..one });
            assert!(seen.most_pieces >= 31, "{seen:?}");
        }
    }
}

#[test]
fn every_storage_of_the_outputs_is_served() {
    let merges = or_skip!(gpu());
    let mut at = 0;
    for o_type in [OutputType::F16, OutputType::Bf16, OutputType::F32] {
        for storage in [Storage::Dense, Storage::Packed, Storage::PackedBySequence] {
            for head_dim_v in [8, 128, 200, 256] {
                at += 1;
                let (group, pack) = [(4, 4), (6, 4), (3, 1), (1, 1)][at % 4];
                let merge = Merge { o_type, storage, head_dim_v, group, pack, ..merge() };
                let merge = Merge {
                    is_base2: at % 2 == 0,
                    has_sink: at % 3 == 0,
                    blocks_per_unit: [1, 2, 3][at % 3],
                    num_blocks: 7,
                    seed: at as u64,
                    ..merge
                };
                assert!(merges.check(&merge).num_merged > 0);
            }
        }
    }
}

#[test]
fn nothing_to_merge_is_left_alone() {
    let merges = or_skip!(gpu());
    let none = Merge { q_lens: vec![0, 0], ..merge() };
    assert_eq!(merges.check(&none).num_merged, 0);
    let hidden = Merge { tiles: vec![0], num_blocks: 9, ..merge() };
    assert_eq!(merges.check(&hidden).num_merged, 0);
}
