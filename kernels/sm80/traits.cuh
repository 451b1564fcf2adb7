#pragma once
// What one build of sm80/sdpa_fwd.cu is made of: the host's integers, and what follows from them.

#include "common/float16.cuh"
#include "common/outputs.cuh"
#include "common/ranges.cuh"
#include "common/sdpa_fwd.cuh"
#include "common/small_batch.cuh"
#include "common/smem_tile.cuh"
#include "common/softmax.cuh"
#include "common/units.cuh"
#include "common/work_list.cuh"
#include "config.cuh"

namespace frazil {

template <int kDtype>
struct ElementOf {
    using Type = F16;
};
template <>
struct ElementOf<1> {
    using Type = Bf16;
};

struct Params {
    SdpaFwdParams op;
    Schedule schedule;
    SmallBatch small;
};

template <class C>
struct Traits : C {
    using Element = typename ElementOf<C::kDtype>::Type;
    static constexpr int kNumThreads = C::kNumWarps * kWarpSize;
    static constexpr int kWarpRows = C::kBlockM / C::kNumWarps;
    static constexpr int kRowBlocks = kWarpRows / 16;
    using Scores = Fragments<kRowBlocks, C::kBlockN>;
    using Output = Fragments<kRowBlocks, C::kHeadDimV>;
    using Stats = RowStats<kRowBlocks>;
};

template <class T>
struct SharedStorage {
    // Then O, which has no more columns.
    alignas(16) u8 q[kTileBytes<T::kBlockM, T::kHeadDimQk>];
    alignas(16) u8 k[T::kNumStages][kTileBytes<T::kBlockN, T::kHeadDimQk>];
    alignas(16) u8 v[T::kNumStages][kTileBytes<T::kBlockN, T::kHeadDimV>];
    // What all threads know alike, for loops that have no registers to spare.
    Unit unit;
    TileRange tiles;
    u64 first_k;  // address of the sequence's first row; in pages, of row 0 of page 0
    u64 first_v;
    OutputRows outputs;
    WorkListHeader list;
    u32 num_units;
    u32 claimed_unit;
    i64 num_fill_jobs;  // of a small batch
    Line line;          // this and the rest where units are cut
    Places places;      // of the block
    i64 slot;           // of a piece
    u32 next_place;
    u32 is_piece;
    RankedBatch ranked;  // of a small batch: kSmallBatch
};

using Kernel = Traits<Config>;

static_assert(Kernel::kWarpRows % 16 == 0, "kBlockM: whole blocks of 16 rows for every warp");
static_assert(Kernel::kBlockN % 16 == 0, "kBlockN: whole steps of the second product");
static_assert(Kernel::kHeadDimQk % 16 == 0 && Kernel::kHeadDimV % 16 == 0, "whole steps");
static_assert(Kernel::kHeadDimV <= Kernel::kHeadDimQk, "O takes the place of Q");
static_assert(Kernel::kSmallBatch == 0 || (Kernel::kCutsUnits == 0 && Kernel::kPageRows == 0),
              "kSmallBatch: whole units, and no pages");
static_assert(Kernel::kNumStages == 1 || Kernel::kNumStages == 2, "kNumStages: 1 or 2");
static_assert(sizeof(SharedStorage<Kernel>) == Kernel::kSmemBytes,
              "kSmemBytes: host and kernel disagree on shared memory");
static_assert(sizeof(Params) == Kernel::kParamsBytes,
              "kParamsBytes: host and kernel disagree on the parameters");

}  // namespace frazil
