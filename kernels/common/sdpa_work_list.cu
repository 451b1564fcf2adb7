// Work list: the first kernel of every execute of attention forward whose lengths lie on the
// device, or whose units are cut.
//
// Does what frazil_sdpa_seqlens does for lengths, first rows and the error word, and lists the
// bands of all sequences (work_list.cuh). Grid: one block of kNumThreads, whatever the batch.
//
// Dearest first, order is by counting: bands are counted by bucket of their cost, the counts become
// first places, and every band takes the next place of its bucket. In a bucket the order is any. In
// natural order every band knows its place, and sums of costs are taken in the two rounds instead.
// Where no sequence has more than kFewTiles tiles of keys there is nothing to order, and one round.
//
// The records have room for max_bands, which is no less than what sequences have whose rows are
// within their bounds and disjoint. Sequences that tensors lay over one another may have more: the
// last of these have no record, and rows of Q are reported.
//
// One artifact serves every plan: sizes of bands and tiles are values.

#include "common/band.cuh"
#include "common/divide.cuh"
#include "common/math.cuh"
#include "common/ptx.cuh"
#include "common/sdpa_fwd.cuh"
#include "common/seqlens.cuh"
#include "common/types.cuh"
#include "common/work_list.cuh"
#include "config.cuh"

namespace frazil {

// The rows of one sequence.
struct alignas(16) Sequence {
    SequenceSide q;
    SequenceSide kv;
};

template <class C>
struct SharedStorage {
    static constexpr int kNumWarps = C::kNumThreads / kWarpSize;
    // Of a batch that is no larger, else they lie in the workspace.
    Sequence sequences[C::kSharedSequences];
    i64 warp_sums[kNumWarps];
    i32 first_bands[C::kSharedSequences + 1];
    u32 next_places[kNumCostBuckets];  // bands of each bucket; then where its next record goes
    u32 warp_bits[kNumWarps];
    i32 warp_kv_lens[kNumWarps];
};

static_assert(Config::kNumThreads % kWarpSize == 0 && Config::kNumThreads >= kNumCostBuckets &&
                  Config::kNumThreads <= 1024,
              "kNumThreads: whole warps of one block, a thread for each bucket");
static_assert(sizeof(SharedStorage<Config>) == Config::kSmemBytes,
              "kSmemBytes: host and kernel disagree on shared memory");
static_assert(sizeof(WorkListParams) == Config::kParamsBytes,
              "kParamsBytes: host and kernel disagree on the parameters");

template <class C>
__device__ __forceinline__ bool is_in_shared(const WorkListParams& params) {
    return params.seqlens.batch <= C::kSharedSequences;
}

// [B + 1]: bands of the sequences before each, and of all.
template <class C>
__device__ __forceinline__ i32* first_bands_of(const WorkListParams& params,
                                               SharedStorage<C>& shared) {
    return is_in_shared<C>(params) ? shared.first_bands : params.first_bands;
}

template <class C>
__device__ __forceinline__ Sequence sequence_at(const WorkListParams& params,
                                                const SharedStorage<C>& shared, i32 batch_idx) {
    if (is_in_shared<C>(params)) return shared.sequences[batch_idx];
    const auto side_rows = [](const SeqlensSide& side, i32 num_rows) {
        return SideRows{side.out_lengths, side.out_starts, num_rows};
    };
    return {sequence_side(side_rows(params.seqlens.q, params.q_rows), batch_idx),
            sequence_side(side_rows(params.seqlens.kv, params.kv_rows), batch_idx)};
}

// ---------------------------------------------------------------------------------------------
// Sequences

// Bounds and writes all sequences and numbers their bands; gives the number of those that are
// listed. What each warp has found out of bounds, and its greatest kv_len, is left in shared
// memory.
template <class C>
__device__ __forceinline__ i32 place_sequences(const WorkListParams& params,
                                               SharedStorage<C>& shared) {
    i32* first_bands = first_bands_of(params, shared);
    const SeqlensParams& seqlens = params.seqlens;
    const i64 max_bands = params.max_bands;
    u32 errors = 0;
    i32 max_kv_len = 0;
    i64 q_sum = 0;
    i64 kv_sum = 0;
    i64 num_bands = 0;
    // Every thread makes the same number of rounds, for the sums are the block's.
#pragma unroll 1
    for (i64 begin = 0; begin < seqlens.batch; begin += C::kNumThreads) {
        const i64 batch_idx = begin + threadIdx.x;
        const bool live = batch_idx < seqlens.batch;
        SequenceRows q_rows{0, 0};
        SequenceRows kv_rows{0, 0};
        if (live) {
            q_rows = rows_of(seqlens.q.lengths, params.q_rows, batch_idx);
            kv_rows = rows_of(seqlens.kv.lengths, params.kv_rows, batch_idx);
        }
        add_lengths(seqlens.q.lengths, q_rows, q_sum, shared.warp_sums);
        add_lengths(seqlens.kv.lengths, kv_rows, kv_sum, shared.warp_sums);
        Sequence sequence{};
        if (live) {
            sequence = {narrow(place_rows(q_rows, seqlens.q, batch_idx, kQErrors, errors)),
                        narrow(place_rows(kv_rows, seqlens.kv, batch_idx, kKvErrors, errors))};
            max_kv_len = max_of(max_kv_len, sequence.kv.len);
        }
        const i32 own_bands = divide_up_by(sequence.q.len, params.band_tokens);
        const BlockSum bands = block_sum(own_bands, shared.warp_sums);
        if (live) {
            if (is_in_shared<C>(params)) shared.sequences[batch_idx] = sequence;
            first_bands[batch_idx] = static_cast<i32>(min_of(num_bands + bands.before, max_bands));
        }
        num_bands += bands.total;
    }
    const i32 num_listed = static_cast<i32>(min_of(num_bands, max_bands));
    if (num_bands > max_bands) errors |= kQErrors.rows;
    errors = __reduce_or_sync(kFullWarp, errors);
    max_kv_len = __reduce_max_sync(kFullWarp, max_kv_len);
    if (lane_idx() == 0) {
        shared.warp_bits[warp_idx()] = errors;
        shared.warp_kv_lens[warp_idx()] = max_kv_len;
    }
    if (threadIdx.x == 0) first_bands[seqlens.batch] = num_listed;
    return num_listed;
}

template <class C>
__device__ __forceinline__ i32 max_kv_len(const SharedStorage<C>& shared) {
    i32 len = 0;
#pragma unroll
    for (int warp = 0; warp < SharedStorage<C>::kNumWarps; ++warp) {
        len = max_of(len, shared.warp_kv_lens[warp]);
    }
    return len;
}

// Whether there is nothing to order.
template <class C>
__device__ __forceinline__ bool has_few_tiles(const WorkListParams& params,
                                              const SharedStorage<C>& shared) {
    return divide_up_by(max_kv_len(shared), params.block_n) <= kFewTiles;
}

// The error word and the header of the list. One thread calls it.
template <class C>
__device__ __forceinline__ void write_header(const WorkListParams& params,
                                             const SharedStorage<C>& shared, i32 num_bands) {
    u32 errors = 0;
    for (int warp = 0; warp < SharedStorage<C>::kNumWarps; ++warp) errors |= shared.warp_bits[warp];
    if (params.seqlens.error_word != nullptr) *params.seqlens.error_word = errors;
    const u32 num_heads = heads_per_section(params.keys_per_section, params.num_kv_heads,
                                            params.num_runs, max_kv_len(shared));
    const bool costs_alike =
        params.order == ListOrder::kDearestFirst && has_few_tiles(params, shared);
    *params.header = {static_cast<u32>(num_bands), num_heads, 0, costs_alike ? 1u : 0u};
}

// ---------------------------------------------------------------------------------------------
// Bands

// The sequence of a band that is no band of those before `low`.
__device__ __forceinline__ i32 find_sequence(const i32* first_bands, i32 band_idx, i32 low,
                                             i32 high) {
    // first_bands[low] <= band_idx < first_bands[high], and of sequences without bands the last.
    while (high - low > 1) {
        const i32 middle = low + (high - low) / 2;
        if (first_bands[middle] <= band_idx) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

__device__ __forceinline__ WorkRecord record_of(const WorkListParams& params, i32 batch_idx,
                                                const Sequence& sequence, i32 band_of_sequence) {
    const i32 band_tokens = static_cast<i32>(params.band_tokens.divisor);
    const i32 q_begin = band_of_sequence * band_tokens;
    const i32 last = q_begin + min_of(band_tokens, sequence.q.len - q_begin) - 1;
    const TileRange tiles =
        tile_range(params.band, params.block_n, q_begin, last, sequence.q.len, sequence.kv.len);
    return {batch_idx,         q_begin,         sequence.q.start, sequence.q.len,
            sequence.kv.start, sequence.kv.len, tiles.begin,      tiles.end};
}

// Calls `visit(band_idx, record, is_live)` for the bands of this thread, which follow on one
// another, and with no live one until every thread of the block has made as many calls.
template <class C, class Visit>
__device__ __forceinline__ void for_each_band(const WorkListParams& params,
                                              SharedStorage<C>& shared, i32 num_bands,
                                              Visit visit) {
    const i32* first_bands = first_bands_of(params, shared);
    const i32 num_own = divide_up(num_bands, i32{C::kNumThreads});
    i32 next_sequence = 0;
    i32 batch_idx = 0;
    i32 begin = 0;
    i32 end = 0;
    Sequence sequence{};
#pragma unroll 1
    for (i32 idx = 0; idx < num_own; ++idx) {
        const i64 wide_band_idx = i64{threadIdx.x} * num_own + idx;
        const bool live = wide_band_idx < num_bands;
        WorkRecord record{};
        if (live) {
            const i32 band_idx = static_cast<i32>(wide_band_idx);
            if (band_idx >= end) {
                // Mostly that of the sequence behind the last one.
                batch_idx = band_idx < first_bands[next_sequence + 1]
                                ? next_sequence
                                : find_sequence(first_bands, band_idx, next_sequence + 1,
                                                static_cast<i32>(params.seqlens.batch));
                next_sequence = batch_idx + 1;
                begin = first_bands[batch_idx];
                end = first_bands[next_sequence];
                sequence = sequence_at(params, shared, batch_idx);
            }
            record = record_of(params, batch_idx, sequence, band_idx - begin);
        }
        visit(wide_band_idx, record, live);
    }
}

// The next place of a bucket, for every live lane of a warp. Lanes of one bucket take theirs at
// once, in the order of lanes. All 32 lanes call it.
__device__ __forceinline__ u32 take_place(u32* next_places, u32 bucket, bool is_live) {
    const u32 live = __ballot_sync(kFullWarp, is_live);
    if (!is_live) return 0;
    const u32 peers = __match_any_sync(live, bucket);
    const u32 num_before = __popc(peers & ((1u << lane_idx()) - 1));
    u32 first = 0;
    if (num_before == 0) first = atomicAdd(&next_places[bucket], __popc(peers));
    return __shfl_sync(live, first, __ffs(static_cast<int>(peers)) - 1) + num_before;
}

// From the number of bands of each bucket to its first place, dearest first.
template <class C>
__device__ __forceinline__ void order_buckets(SharedStorage<C>& shared) {
    const u32 bucket = kNumCostBuckets - 1 - threadIdx.x;
    const bool is_one = threadIdx.x < kNumCostBuckets;
    const i64 num_bands = is_one ? shared.next_places[bucket] : 0;
    const BlockSum sum = block_sum(num_bands, shared.warp_sums);
    if (is_one) shared.next_places[bucket] = static_cast<u32>(sum.before);
}

template <class C>
__device__ __forceinline__ void list_bands(const WorkListParams& params, SharedStorage<C>& shared,
                                           i32 num_bands) {
    const bool has_places = params.order == ListOrder::kNatural;
    const bool is_natural = has_places || has_few_tiles(params, shared);
    // Of the bands before this thread's next one, in the first round of its own: for places.
    i64 next_place = 0;
    // The code of the second round is that of the first, which is fetched by then.
#pragma unroll 1
    for (int round = is_natural && !has_places ? 1 : 0; round < 2; ++round) {
        const bool writes = round == 1;
        const auto visit = [&](i64 band_idx, const WorkRecord& record, bool live) {
            const u32 num_tiles = static_cast<u32>(record.tile_end - record.tile_begin);
            i64 at = band_idx;
            if (is_natural) {
                if (writes && live && has_places) params.places[band_idx] = next_place;
                next_place += live ? i64{num_tiles} + 1 : 0;
            } else {
                at = take_place(shared.next_places, cost_bucket(num_tiles + kBandCost), live);
            }
            if (writes && live) params.records[at] = record;
        };
        for_each_band(params, shared, num_bands, visit);
        __syncthreads();
        if (writes) break;
        if (is_natural) {
            const BlockSum sum = block_sum(next_place, shared.warp_sums);
            next_place = sum.before;
            if (threadIdx.x == 0) params.places[num_bands] = sum.total;
        } else {
            order_buckets(shared);
        }
        __syncthreads();
    }
}

}  // namespace frazil

extern "C" __global__ void __launch_bounds__(frazil::Config::kNumThreads)
    frazil_sdpa_work_list(const __grid_constant__ frazil::WorkListParams params) {
    using namespace frazil;
    griddepcontrol_launch_dependents();
    __shared__ SharedStorage<Config> shared;
    if (threadIdx.x < kNumCostBuckets) shared.next_places[threadIdx.x] = 0;
    const i32 num_bands = place_sequences(params, shared);
    __syncthreads();
    // The last thread, which has the fewest bands.
    if (threadIdx.x == Config::kNumThreads - 1) write_header(params, shared, num_bands);
    list_bands(params, shared, num_bands);
}
