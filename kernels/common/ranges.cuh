#pragma once
// Units cut into pieces of equal cost, for work that has too few units to fill a GPU: one query a
// sequence over many keys.
//
// The bands of a list in their natural order, each as often as there are head units, are one line
// of tiles. A unit of n tiles takes n + 1 places of it, the first for what it costs whatever it
// has. Block i of R takes the places floor(i P / R) to floor((i + 1) P / R) of the P places, so at
// most its first and its last piece are not whole units. A piece that is not leaves a partial
// result in slot 2i, or 2i + 1 where it is the block's last and not its first, and
// frazil_sdpa_combine merges the pieces of a unit, which it finds by the same sums. (The idea of
// equal contiguous ranges: FlashMLA's decode scheduler, and Osama et al., "Stream-K", PPoPP 2023.)

#include "common/divide.cuh"
#include "common/math.cuh"
#include "common/ptx.cuh"
#include "common/types.cuh"
#include "common/work_list.cuh"

namespace frazil {

// A run of tiles of one unit, of those that its band sees, counted from the last one.
struct Piece {
    i32 band_idx;
    i32 head_unit;
    i32 tiles_begin;
    i32 tiles_end;
    i32 num_tiles;  // of the unit
    i64 end;        // the place after it
};

// Places divided among blocks: floor(num_places / num_blocks) each, and what rests spread evenly.
struct Division {
    i64 num_places;
    i64 each;
    u32 rest;        // below num_blocks
    u32 num_blocks;  // below 2^16
};

__device__ __forceinline__ Division division(i64 num_places, u32 num_blocks) {
    return {num_places, num_places / num_blocks, static_cast<u32>(num_places % num_blocks),
            num_blocks};
}

// Half open.
struct Places {
    i64 begin;
    i64 end;
};

__device__ __forceinline__ i64 first_place(const Division& division, u32 block) {
    return division.each * block + division.rest * block / division.num_blocks;
}

__device__ __forceinline__ Places places_of(const Division& division, u32 block) {
    return {first_place(division, block), first_place(division, block + 1)};
}

// The block that has a place.
__device__ __forceinline__ u32 block_of_place(const Division& division, i64 place) {
    // In f32, which is off by less than one block of 2^16: the loops correct it.
    const float share =
        static_cast<float>(place) * rcp_approx(static_cast<float>(division.num_places));
    u32 block = static_cast<u32>(share * static_cast<float>(division.num_blocks));
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

// The piece at `place`, and no further than `end`. All lanes of a warp ask for the same.
__device__ __forceinline__ Piece piece_at(const i64* prefix, i32 num_bands, i64 num_head_units,
                                          i64 place, i64 end) {
    const i32 band_idx = band_of_place(prefix, num_bands, place / num_head_units);
    const i64 cost = prefix[band_idx + 1] - prefix[band_idx];
    const i64 in_band = place - prefix[band_idx] * num_head_units;
    const i64 head_unit = in_band / cost;
    const i64 begin = in_band - head_unit * cost;
    const i64 length = min_of(cost - begin, end - place);
    return {band_idx,
            static_cast<i32>(head_unit),
            static_cast<i32>(max_of<i64>(begin, 1) - 1),
            static_cast<i32>(begin + length - 1),
            static_cast<i32>(cost - 1),
            place + length};
}

// The places of one unit.
struct UnitPlaces {
    i32 band_idx;
    i32 head_unit;
    i64 begin;
    i64 end;
};

__device__ __forceinline__ UnitPlaces unit_of_place(const i64* prefix, i32 num_bands,
                                                    i64 num_head_units, i64 place) {
    const i32 band_idx = band_of_place(prefix, num_bands, place / num_head_units);
    const i64 cost = prefix[band_idx + 1] - prefix[band_idx];
    const i64 in_band = place - prefix[band_idx] * num_head_units;
    const i64 head_unit = in_band / cost;
    const i64 begin = place - (in_band - head_unit * cost);
    return {band_idx, static_cast<i32>(head_unit), begin, begin + cost};
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
