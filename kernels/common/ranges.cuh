#pragma once
// Units cut into pieces of equal cost, for work that has too few units to fill a GPU: one query a
// sequence over many keys.
//
// The bands of a list in their natural order, each as often as there are head units, are one line
// of tiles; where no list is needed, because all units have as many tiles, these are, in the order
// of their index. A unit of n tiles takes n + 1 places of the line, the first for what it costs
// whatever it has. Block i of R takes the places floor(i P / R) to floor((i + 1) P / R) of the P
// places, so at most its first and its last piece are not whole units, and where R is a multiple of
// the units of one length, no block has two. A piece that is no whole unit leaves a partial result
// in slot 2i, or 2i + 1 where it is the block's last and not its first, and frazil_sdpa_combine
// merges the pieces of a unit, which it finds by the same sums. (The idea of equal contiguous
// ranges: FlashMLA's decode scheduler, and Osama et al., "Stream-K", PPoPP 2023.)
//
// The host sees to it that no line has 2^31 places, and no grid more than 2^15 blocks.

#include "common/divide.cuh"
#include "common/math.cuh"
#include "common/ptx.cuh"
#include "common/types.cuh"
#include "common/units.cuh"
#include "common/work_list.cuh"

namespace frazil {

// The line of one call.
struct Line {
    const i64* prefix;  // [num_bands + 1]: places of the bands before, for one head unit; null: all
                        // units have as many
    i32 num_bands;
    i32 unit_places;  // of every unit, where there is no prefix
    u32 num_places;
};

// Waits for nothing but the list.
__device__ __forceinline__ Line line_of(const Schedule& schedule) {
    const Partials& partials = schedule.partials;
    if (partials.prefix == nullptr) {
        return {nullptr, 0, partials.unit_places,
                schedule.sections.num_units * static_cast<u32>(partials.unit_places)};
    }
    const i32 num_bands = static_cast<i32>(schedule.header->num_bands);
    const u32 of_head_unit = static_cast<u32>(partials.prefix[num_bands]);
    return {partials.prefix, num_bands, 0, of_head_unit * schedule.head_units.divisor};
}

// Places divided among blocks: floor(num_places / num_blocks) each, and what rests spread evenly.
struct Division {
    u32 num_places;
    u32 each;
    u32 rest;  // below the number of blocks
    Divisor blocks;
};

__device__ __forceinline__ Division division(u32 num_places, const Divisor& blocks) {
    const Quotient each = divide(static_cast<i32>(num_places), blocks);
    return {num_places, static_cast<u32>(each.quotient), static_cast<u32>(each.remainder), blocks};
}

// Half open.
struct Places {
    u32 begin;
    u32 end;
};

__device__ __forceinline__ u32 first_place(const Division& division, u32 block) {
    const Quotient of_rest = divide(static_cast<i32>(division.rest * block), division.blocks);
    return division.each * block + static_cast<u32>(of_rest.quotient);
}

__device__ __forceinline__ Places places_of(const Division& division, u32 block) {
    return {first_place(division, block), first_place(division, block + 1)};
}

// The block that has a place.
__device__ __forceinline__ u32 block_of_place(const Division& division, u32 place) {
    // In f32, which is off by less than one block of 2^15: the loops correct it.
    const float share =
        static_cast<float>(place) * rcp_approx(static_cast<float>(division.num_places));
    u32 block = static_cast<u32>(share * static_cast<float>(division.blocks.divisor));
    while (first_place(division, block) > place) --block;
    while (first_place(division, block + 1) <= place) ++block;
    return block;
}

// The last index of prefix[0..=count] that is not above `place` of one head unit, below `count`.
// All lanes of a warp ask for the same place: 32 entries are looked at at once.
__device__ __forceinline__ i32 band_of_place(const i64* prefix, i32 count, i64 place) {
    i32 begin = 0;
    i32 end = count;
    while (end - begin > 1) {
        const i32 step = divide_up(end - begin, kWarpSize);
        const i32 at = min_of(begin + (lane_idx() + 1) * step, end);
        const bool is_after = at >= end || prefix[at] > place;
        const i32 first_after = __ffs(static_cast<int>(__ballot_sync(kFullWarp, is_after))) - 1;
        end = min_of(begin + (first_after + 1) * step, end);
        begin += first_after * step;
    }
    return begin;
}

// The slot of a piece that is no whole unit.
__device__ __forceinline__ i64 slot_of(u32 block, bool is_first_of_block) {
    return 2 * i64{block} + (is_first_of_block ? 0 : 1);
}

// The places of one unit.
struct UnitPlaces {
    i32 band_idx;   // of the list; without a list, the index of the unit
    i32 head_unit;  // without a list 0
    u32 begin;
    u32 end;
};

// All lanes of a warp ask for the same.
__device__ __forceinline__ UnitPlaces unit_of_place(const Line& line, const Divisor& head_units,
                                                    u32 place) {
    if (line.prefix == nullptr) {
        const u32 of_unit = static_cast<u32>(line.unit_places);
        const u32 unit_idx = place / of_unit;
        return {static_cast<i32>(unit_idx), 0, unit_idx * of_unit, unit_idx * of_unit + of_unit};
    }
    const i32 of_head_unit = divide(static_cast<i32>(place), head_units).quotient;
    const i32 band_idx = band_of_place(line.prefix, line.num_bands, of_head_unit);
    const u32 before = static_cast<u32>(line.prefix[band_idx]);
    const u32 of_unit = static_cast<u32>(line.prefix[band_idx + 1]) - before;
    const u32 first = before * head_units.divisor;
    const u32 head_unit = (place - first) / of_unit;
    const u32 begin = first + head_unit * of_unit;
    return {band_idx, static_cast<i32>(head_unit), begin, begin + of_unit};
}

// `band_tokens` queries are a band.
__device__ __forceinline__ Unit unit_at(const SdpaFwdParams& params, const Schedule& schedule,
                                        const UnitPlaces& places, i32 band_tokens) {
    if (is_listed(schedule)) {
        return listed_unit(params, schedule, places.band_idx, places.head_unit, band_tokens);
    }
    return counted_unit(params, schedule, static_cast<u32>(places.band_idx), band_tokens);
}

// A run of tiles of one unit, of those that its band sees, counted from the last one.
struct Piece {
    UnitPlaces unit;
    i32 tiles_begin;
    i32 tiles_end;
    u32 end;  // the place after it
};

// The piece at `place`, and no further than `end`. All lanes of a warp ask for the same.
__device__ __forceinline__ Piece piece_at(const Line& line, const Divisor& head_units, u32 place,
                                          u32 end) {
    const UnitPlaces unit = unit_of_place(line, head_units, place);
    const u32 piece_end = min_of(unit.end, end);
    return {unit, static_cast<i32>(max_of(place - unit.begin, 1u) - 1),
            static_cast<i32>(piece_end - unit.begin) - 1, piece_end};
}

__device__ __forceinline__ bool is_whole(const Piece& piece) {
    return piece.tiles_begin == 0 && piece.end == piece.unit.end;
}

// The blocks that have tiles of one unit, both inclusive. One block: it has stored the rows of the
// unit, which may yet be cut behind its first place, where no tile is.
struct PieceBlocks {
    u32 first;
    u32 last;
};

// Of a unit that has a tile.
__device__ __forceinline__ PieceBlocks piece_blocks(const Division& division,
                                                    const UnitPlaces& unit) {
    return {block_of_place(division, unit.begin + 1), block_of_place(division, unit.end - 1)};
}

// The slot where one of these blocks has left its piece, and whether there is one: of more blocks
// than places some have none.
struct LeftPiece {
    i32 slot;
    bool is_left;
};

__device__ __forceinline__ LeftPiece left_piece(const Division& division, const UnitPlaces& unit,
                                                u32 block) {
    const Places places = places_of(division, block);
    return {static_cast<i32>(slot_of(block, places.begin >= unit.begin)),
            places.begin < places.end};
}

}  // namespace frazil
