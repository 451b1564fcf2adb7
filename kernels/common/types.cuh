#pragma once
// Integers of fixed width. NVRTC alone has no <cstdint>.

namespace frazil {

using u8 = unsigned char;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

static_assert(sizeof(u16) == 2 && sizeof(i32) == 4 && sizeof(u32) == 4, "widths of the ABI");
static_assert(sizeof(i64) == 8 && sizeof(u64) == 8 && sizeof(void*) == 8, "widths of the ABI");

}  // namespace frazil
