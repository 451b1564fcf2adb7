#pragma once
// Units of work of attention forward: which queries and heads a block has, and where it learns of
// it.

#include "common/math.cuh"
#include "common/sdpa_fwd.cuh"
#include "common/types.cuh"
#include "common/work_list.cuh"

namespace frazil {

// A row of a tile of queries.
struct RowPlace {
    i32 token;     // from the band's first
    i32 in_run;    // from the run's first head
    i32 pos;       // in its sequence
    i32 head;      // of Q; num_q_heads and above where the run of heads has no such row
    bool is_live;  // else it is past the sequence or the group: computed, and stored nowhere
};

// One band of queries, of the heads of one run.
struct Unit {
    i32 batch_idx;
    i32 kv_head;
    i32 first_head;  // of Q
    i32 num_heads;   // that the run has: 1..=pack
    i32 q_begin;     // position of the first query
    i32 q_end;       // past the last one of the band
    SequenceSide q;
    SequenceSide kv;
};
static_assert(sizeof(Unit) == 40, "part of every kernel's shared memory");

__device__ __forceinline__ RowPlace row_place(const SdpaFwdParams& params, const Unit& unit,
                                              i32 row) {
    const Quotient split = divide(row, params.heads.pack);
    const i32 pos = unit.q_begin + split.quotient;
    return {split.quotient, split.remainder, pos, unit.first_head + split.remainder,
            pos < unit.q_end && split.remainder < unit.num_heads};
}

__device__ __forceinline__ bool is_listed(const Schedule& schedule) {
    return schedule.records != nullptr;
}

// Whether units are cut into pieces. Builds for many units have no trace of it.
template <class T>
__device__ __forceinline__ bool cuts(const Schedule& schedule) {
    return T::kCutsUnits != 0 && schedule.partials.out != nullptr;
}

// Where a band begins, and the sequence it is of.
struct BandPlace {
    i32 batch_idx;
    i32 q_begin;
    SequenceSide q;
    SequenceSide kv;
};

// `band_tokens` queries are a band.
__device__ __forceinline__ Unit unit_of(const SdpaFwdParams& params, const BandPlace& band,
                                        i32 head_unit, i32 band_tokens) {
    const Quotient run = divide(head_unit, params.heads.runs);
    const i32 pack = static_cast<i32>(params.heads.pack.divisor);
    const i32 in_group = run.remainder * pack;
    return {band.batch_idx,
            run.quotient,
            run.quotient * params.heads.group + in_group,
            min_of(pack, params.heads.group - in_group),
            band.q_begin,
            min_of(band.q_begin + band_tokens, band.q.len),
            band.q,
            band.kv};
}

// Of the record of a list.
__device__ __forceinline__ Unit listed_unit(const SdpaFwdParams& params, const Schedule& schedule,
                                            i32 band_idx, i32 head_unit, i32 band_tokens) {
    const WorkRecord record = schedule.records[band_idx];
    const BandPlace band{record.batch_idx,
                         record.q_begin,
                         {record.q_start, record.q_len},
                         {record.kv_start, record.kv_len}};
    return unit_of(params, band, head_unit, band_tokens);
}

// Of the index alone: the last band of a sequence first, which under a causal mask is the dearest.
__device__ __forceinline__ Unit counted_unit(const SdpaFwdParams& params, const Schedule& schedule,
                                             u32 unit_idx, i32 band_tokens) {
    const BandAndHead at = band_and_head(schedule.sections, unit_idx);
    const Quotient pair = divide(at.head_idx, schedule.head_units);
    const i32 last_band = static_cast<i32>(schedule.sections.num_bands) - 1;
    const BandPlace band{pair.quotient, (last_band - at.band_idx) * band_tokens,
                         sequence_side(params.q_rows, pair.quotient),
                         sequence_side(params.kv_rows, pair.quotient)};
    return unit_of(params, band, pair.remainder, band_tokens);
}

}  // namespace frazil
