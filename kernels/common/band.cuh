#pragma once
// Which keys a query sees, and which tiles of keys a run of queries has to walk.

#include "common/divide.cuh"
#include "common/math.cuh"
#include "common/types.cuh"

namespace frazil {

// Keys pos + off - left to pos + off + right, both inclusive, where `off` is kv_len - q_len from
// the bottom-right corner and 0 from the top-left one. A side without a bound has 2^31: no distance
// between a query and a key is as large.
struct Band {
    i64 left;
    i64 right;
    u32 is_bottom_right;
    u32 is_bounded;  // 0: every query sees every key
};

// Half open.
struct KeyRange {
    i32 begin;
    i32 end;
};

// Keys of 0..kv_len that the query at `pos` of its sequence sees; empty where begin >= end.
__device__ __forceinline__ KeyRange visible_keys(const Band& band, i32 pos, i32 off, i32 kv_len) {
    const i64 diagonal = i64{pos} + off;
    const i64 len = kv_len;
    return {static_cast<i32>(clamp<i64>(diagonal - band.left, 0, len)),
            static_cast<i32>(clamp<i64>(diagonal + band.right + 1, 0, len))};
}

__device__ __forceinline__ i32 band_offset(const Band& band, i32 q_len, i32 kv_len) {
    return band.is_bottom_right != 0 ? kv_len - q_len : 0;
}

// Tiles of keys that some query of a run sees, begin..end, and of these full_begin..full_end of
// which every query sees every key. begin <= full_begin and full_end <= end; where full_begin >=
// full_end there is no full tile.
struct TileRange {
    i32 begin;
    i32 full_begin;
    i32 full_end;
    i32 end;
};

// Of the queries first_pos..=last_pos of a sequence. `block_n` keys are a tile, a Divisor or a
// FixedDivisor.
template <class BlockN>
__device__ __forceinline__ TileRange tile_range(const Band& band, const BlockN& block_n,
                                                i32 first_pos, i32 last_pos, i32 q_len,
                                                i32 kv_len) {
    if (band.is_bounded == 0) {
        return {0, 0, divide(kv_len, block_n).quotient, divide_up_by(kv_len, block_n)};
    }
    const i32 off = band_offset(band, q_len, kv_len);
    const KeyRange first = visible_keys(band, first_pos, off, kv_len);
    const KeyRange last = visible_keys(band, last_pos, off, kv_len);
    if (first.begin >= last.end) return {0, 0, 0, 0};
    const i32 begin = divide(first.begin, block_n).quotient;
    const i32 end = divide_up_by(last.end, block_n);
    return {begin, clamp(divide_up_by(last.begin, block_n), begin, end),
            clamp(divide(first.end, block_n).quotient, begin, end), end};
}

}  // namespace frazil
