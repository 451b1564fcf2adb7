#pragma once
// Work of attention forward over sequences whose lengths lie on the device: a list of bands.
//
// A band is a run of `band_tokens` queries of one sequence; a unit is a band and a head unit, of
// which there are num_kv_heads * num_runs (`Heads`). frazil_sdpa_work_list writes one record for
// each band that has a query, dearest first, so no unit stands for dead space; the blocks of a
// capped grid claim units in that order.
//
// The structs are mirrored in crates/cuda/src/work_list/params.rs.

#include "common/types.cuh"

namespace frazil {

// Everything that a unit needs of its band: 32 bytes, read at once.
struct alignas(16) WorkRecord {
    i32 batch_idx;
    i32 q_begin;  // first query, in its sequence
    i32 q_start;  // first row of the sequence, packed; else 0
    i32 q_len;
    i32 kv_start;
    i32 kv_len;
    i32 tile_begin;  // tiles of keys that some query of the band sees
    i32 tile_end;
};
static_assert(sizeof(WorkRecord) == 32, "two loads of 16 bytes");

struct alignas(16) WorkListHeader {
    u32 num_bands;
    u32 heads_per_section;  // at least 1; units of one section are claimed before those of the next
    u32 num_claimed;        // units claimed beyond the first of each block
    u32 unused;
};
static_assert(sizeof(WorkListHeader) == 16, "one load");

// Where the blocks of attention forward find their units.
struct Schedule {
    // Of a list; null where units are told by their index alone: `num_bands` for each sequence,
    // whatever its length.
    const WorkRecord* records;
    WorkListHeader* header;
    u32 num_bands;
    u32 pairs_per_section;  // at least 1; pairs of a sequence and a head unit
};

struct BandAndHead {
    u32 band_idx;
    u32 head_unit;
};

// The unit at `unit_idx` of num_bands * num_head_units: sections of heads outermost, then bands,
// then the heads of the section, so that blocks that run together read the same keys. The last
// section has what heads are left.
__device__ __forceinline__ BandAndHead band_and_head(u32 unit_idx, u32 num_bands,
                                                     u32 num_head_units, u32 heads_per_section) {
    const u32 num_whole = num_head_units / heads_per_section;
    const u32 num_in_whole = num_whole * heads_per_section * num_bands;
    if (unit_idx < num_in_whole) {
        const u32 section_units = heads_per_section * num_bands;
        const u32 section = unit_idx / section_units;
        const u32 rest = unit_idx - section * section_units;
        return {rest / heads_per_section, section * heads_per_section + rest % heads_per_section};
    }
    const u32 num_left = num_head_units - num_whole * heads_per_section;
    const u32 rest = unit_idx - num_in_whole;
    return {rest / num_left, num_whole * heads_per_section + rest % num_left};
}

}  // namespace frazil
