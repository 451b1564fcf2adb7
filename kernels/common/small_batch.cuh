#pragma once
// Work of attention forward over few sequences whose lengths lie on the device, without a list:
// every block works out the bands of all of them by itself, and no kernel goes before it.
//
// A lane takes a sequence: reads and bounds its rows, and ranks it by its keys, for sequences are
// taken longest first. Units are those of a list in that order, of each sequence the last band
// first. Nobody claims them: block b of R takes the units b, 2R - 1 - b, 2R + b, and so on, so that
// who had the dearest of one round has the cheapest of the next.
//
// SmallBatch is mirrored in crates/cuda/src/sdpa_fwd/small_batch.rs.

#include "common/math.cuh"
#include "common/sdpa_fwd.cuh"
#include "common/seqlens.cuh"
#include "common/types.cuh"
#include "common/units.cuh"
#include "common/work_list.cuh"

namespace frazil {

// What blocks work bands out of.
struct SmallBatch {
    i64 batch;  // up to 32
    SideLengths q;
    SideLengths kv;
    i32 q_rows;  // of every sequence, where dense
    i32 kv_rows;
    u32 keys_per_section;  // these as WorkListParams
    i32 max_bands;
};

// A sequence, at its rank.
struct RankedSequence {
    i32 batch_idx;
    i32 first_band;
    SequenceSide q;
    SequenceSide kv;
};

struct RankedBatch {
    RankedSequence sequences[kWarpSize];
};

// Rows of the lane's sequence on one side, bounded. All lanes of a warp call it.
__device__ __forceinline__ SequenceSide place_lane(const SideLengths& side, i32 num_rows,
                                                   bool is_live, SeqlensErrors bits, u32& errors) {
    SequenceRows rows{0, 0};
    if (is_live) rows = rows_of(side, num_rows, lane_idx());
    if (side.form == SeqlensForm::kPackedLengths) {
        const i64 own = max_of<i64>(rows.len, 0);
        rows.start = warp_inclusive_sum(own) - own;
    }
    if (is_live && side.form != SeqlensForm::kDense) rows = bound_rows(rows, side, bits, errors);
    return narrow(rows);
}

// How many of the first `count` lanes have a greater value, or the same and a lower index. The
// other lanes are ranked behind them.
__device__ __forceinline__ i32 rank_of_lane(i32 value, i32 count) {
    i32 rank = 0;
#pragma unroll 4
    for (i32 lane = 0; lane < count; ++lane) {
        const i32 other = __shfl_sync(kFullWarp, value, lane);
        rank += other > value || (other == value && lane < lane_idx()) ? 1 : 0;
    }
    return lane_idx() < count ? rank : lane_idx();
}

// Ranks the sequences, and gives what the header of a list would say; one block writes the error
// word. One warp of the block calls it; others see the sequences after a barrier.
__device__ __forceinline__ WorkListHeader rank_batch(const SdpaFwdParams& params,
                                                     const SmallBatch& batch, i32 band_tokens,
                                                     RankedBatch& ranked) {
    const bool is_live = lane_idx() < batch.batch;
    u32 errors = 0;
    const SequenceSide q = place_lane(batch.q, batch.q_rows, is_live, kQErrors, errors);
    const SequenceSide kv = place_lane(batch.kv, batch.kv_rows, is_live, kKvErrors, errors);
    const i32 rank = rank_of_lane(kv.len, static_cast<i32>(batch.batch));
    ranked.sequences[rank] = {lane_idx(), 0, q, kv};
    __syncwarp();
    RankedSequence& own = ranked.sequences[lane_idx()];
    const i64 num_bands = divide_up(own.q.len, band_tokens);
    const i64 num_through = warp_inclusive_sum(num_bands);
    // As of a list, there is no more of what sequences have that lie over one another.
    own.first_band = static_cast<i32>(min_of<i64>(num_through - num_bands, batch.max_bands));
    const i64 total = __shfl_sync(kFullWarp, num_through, kWarpSize - 1);
    if (total > batch.max_bands) errors |= kQErrors.rows;
    errors = __reduce_or_sync(kFullWarp, errors);
    if (blockIdx.x == 0 && lane_idx() == 0) *params.error_word = errors;
    const i32 max_kv_len = __reduce_max_sync(kFullWarp, kv.len);
    const u32 num_heads = heads_per_section(batch.keys_per_section, params.heads.num_kv_heads,
                                            params.heads.num_runs, max_kv_len);
    return {static_cast<u32>(min_of<i64>(total, batch.max_bands)), num_heads, 0, 0};
}

// A unit of a ranked batch. All lanes of a warp ask for the same.
__device__ __forceinline__ Unit ranked_unit(const SdpaFwdParams& params, const RankedBatch& ranked,
                                            const BandAndHead& at, i32 band_tokens) {
    // A sequence without queries begins where the next one does, and is not the last that does.
    const bool begins = ranked.sequences[lane_idx()].first_band <= at.band_idx;
    const RankedSequence& sequence = ranked.sequences[__popc(__ballot_sync(kFullWarp, begins)) - 1];
    const i32 last_band = divide_up(sequence.q.len, band_tokens) - 1;
    const i32 band = last_band - (at.band_idx - sequence.first_band);
    return unit_of(params, {sequence.batch_idx, band * band_tokens, sequence.q, sequence.kv},
                   at.head_idx, band_tokens);
}

// The unit that a block takes after this one.
__device__ __forceinline__ i64 next_of_block(i64 unit_idx, u32 num_blocks) {
    const u32 place = static_cast<u32>(unit_idx) % num_blocks;
    return unit_idx + 2 * i64{num_blocks - place} - 1;
}

}  // namespace frazil
