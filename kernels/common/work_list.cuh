#pragma once
// Work of attention forward over sequences whose lengths lie on the device: a list of bands.
//
// A band is a run of `band_tokens` queries of one sequence; a unit is a band and a head unit, of
// which there are num_kv_heads * num_runs (`Heads`). frazil_sdpa_work_list writes one record for
// each band that has a query, so no unit stands for dead space. Dearest first: the blocks of a
// capped grid claim units in that order. In natural order, band after band of sequence after
// sequence: units are cut into pieces of equal cost (ranges.cuh), found by the sums of costs that
// are written too.
//
// The structs are mirrored in crates/cuda/src/work_list/params.rs.

#include "common/band.cuh"
#include "common/divide.cuh"
#include "common/seqlens.cuh"
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
    u32 costs_alike;        // 1: no band has more than kFewTiles tiles, and none is before another
};
static_assert(sizeof(WorkListHeader) == 16, "one load");

enum class ListOrder : u32 { kDearestFirst = 0, kNatural = 1 };

// What frazil_sdpa_work_list takes.
struct WorkListParams {
    SeqlensParams seqlens;  // with no element offsets; no error word where both sides are dense
    Band band;
    Divisor band_tokens;
    Divisor block_n;  // keys of a tile
    i32 q_rows;       // of every sequence, where dense
    i32 kv_rows;
    u32 num_kv_heads;
    u32 num_runs;          // head units of a KV head
    u32 keys_per_section;  // of one KV head, that units which run together may read
    i32 max_bands;         // records that there is room for
    ListOrder order;
    u32 unused;
    i32* first_bands;  // [B + 1]: scratch, for batches that do not fit shared memory
    WorkListHeader* header;
    WorkRecord* records;
    i64* places;  // [max_bands + 1], in natural order: tiles and 1 of all bands before
};

// Heads whose units run together: whole KV heads, a power of two of them or all, whose keys and
// values of the longest sequence fit the budget; at least one.
__device__ __forceinline__ u32 heads_per_section(u32 keys_per_section, u32 num_kv_heads,
                                                 u32 num_runs, i32 max_kv_len) {
    const u32 num_fitting = keys_per_section / static_cast<u32>(max_of(max_kv_len, 1));
    const u32 num_whole = num_fitting > 1 ? 1u << (31 - __clz(static_cast<int>(num_fitting))) : 1;
    return min_of(num_whole, num_kv_heads) * num_runs;
}

// Tiles of keys up to which bands cost nearly alike.
inline constexpr i32 kFewTiles = 2;

// What a band costs beside its tiles, in tiles.
inline constexpr u32 kBandCost = 2;

// Costs that are nearly alike are one bucket: 16 to an octave, so that order is as fine for short
// sequences as for long ones, whatever was declared. Monotone, for any cost.
inline constexpr u32 kNumCostBuckets = 29 * 16;

__device__ __forceinline__ u32 cost_bucket(u32 cost) {
    if (cost < 16) return cost;
    const int log2 = 31 - __clz(static_cast<int>(cost));
    return (log2 - 3) * 16 + (cost >> (log2 - 4)) % 16;
}

// The order of units: sections of `heads` outermost, then bands, then the heads of the section, so
// that blocks that run together read the same keys. The last section has what heads are left.
struct Sections {
    u32 num_bands;
    u32 num_units;     // of all sections
    u32 num_in_whole;  // units of the sections that are whole
    u32 unused;
    Divisor units;  // of a whole section
    Divisor heads;  // of a whole section
    Divisor left;   // heads of the last section, where it is not whole; else 1
};

struct BandAndHead {
    i32 band_idx;
    i32 head_idx;
};

// The unit at `unit_idx` of those of `sections`.
__device__ __forceinline__ BandAndHead band_and_head(const Sections& sections, u32 unit_idx) {
    if (unit_idx < sections.num_in_whole) {
        const Quotient section = divide(static_cast<i32>(unit_idx), sections.units);
        const Quotient in_section = divide(section.remainder, sections.heads);
        const i32 first_head = section.quotient * static_cast<i32>(sections.heads.divisor);
        return {in_section.quotient, first_head + in_section.remainder};
    }
    const Quotient rest = divide(static_cast<i32>(unit_idx - sections.num_in_whole), sections.left);
    const i32 num_whole = static_cast<i32>(sections.num_in_whole / sections.num_bands);
    return {rest.quotient, num_whole + rest.remainder};
}

// The same for sections that a list's header tells of.
__device__ __forceinline__ BandAndHead listed_band_and_head(const WorkListHeader& list,
                                                            const Divisor& head_units,
                                                            u32 unit_idx) {
    const u32 num_head_units = head_units.divisor;
    if (list.heads_per_section == num_head_units) {
        const Quotient at = divide(static_cast<i32>(unit_idx), head_units);
        return {at.quotient, at.remainder};
    }
    const u32 num_whole = num_head_units / list.heads_per_section * list.heads_per_section;
    const u32 num_in_whole = num_whole * list.num_bands;
    const bool is_whole = unit_idx < num_in_whole;
    const u32 num_heads = is_whole ? list.heads_per_section : num_head_units - num_whole;
    const u32 section = is_whole ? unit_idx / (num_heads * list.num_bands) : 0;
    const u32 first_head = is_whole ? section * num_heads : num_whole;
    const u32 rest =
        is_whole ? unit_idx - section * num_heads * list.num_bands : unit_idx - num_in_whole;
    return {static_cast<i32>(rest / num_heads), static_cast<i32>(first_head + rest % num_heads)};
}

// What the pieces of units that are cut leave (ranges.cuh).
struct Partials {
    const i64* prefix;  // [num_bands + 1]: places of the bands before, for one head unit; null
                        // where units are told by their index, and have as many places
    float* out;         // [2R, slot_rows, head_dim_v]: rows of O, divided by their sums; null:
                        // units are not cut
    float2* stats;      // [2R, slot_rows]: maximum (`RowStats`), and sum relative to it
    i32 slot_rows;      // rows of a tile that may be live: its first ones
    i32 unit_places;    // of every unit told by its index: its tiles or more, and 1
    Divisor blocks;     // R, of the kernel that cuts
};

// Where the blocks of attention forward find their units.
struct Schedule {
    // Of a list; null where units are told by their index alone.
    const WorkRecord* records;
    WorkListHeader* header;
    Sections sections;   // of units told by their index: the bands of a sequence, and pairs of a
                         // sequence and a head unit
    Divisor head_units;  // num_kv_heads * num_runs
    Partials partials;   // of units that are cut
};

}  // namespace frazil
