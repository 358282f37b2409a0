// The host's side of tensor maps: the driver's encoding functions, with its rules.
#include "tensor_map.h"

#include <cstring>

namespace tl_emu {

namespace {

constexpr int invalid_value = 1;  // CUDA_ERROR_INVALID_VALUE

// By the value of CUtensorMapDataType.
constexpr Unit units[] = {
    {kind_u8, 1, 1, 1}, {kind_u16, 1, 2, 2}, {kind_u32, 1, 4, 4}, {kind_s32, 1, 4, 4}, {kind_u64, 1, 8, 8},
    {kind_s64, 1, 8, 8}, {kind_f16, 1, 2, 2}, {kind_f32, 1, 4, 4}, {kind_f64, 1, 8, 8}, {kind_bf16, 1, 2, 2},
    {kind_f32, 1, 4, 4}, {kind_tf32, 1, 4, 4}, {kind_tf32, 1, 4, 4},
    {kind_u4, 16, 8, 8}, {kind_u4, 16, 8, 16}, {kind_e2m3, 16, 12, 16},
};
constexpr int type_count = sizeof(units) / sizeof(units[0]);
constexpr bool is_float(int type) { return type >= 6 && type <= 12; }
constexpr bool is_padded(int type) { return type == 14 || type == 15; }  // 16 bytes of shared memory a unit

thread_local const char* reason = "";

int refuse(const char* text) {
    reason = text;
    return invalid_value;
}

struct Common {
    int type;
    uint32_t rank;
    const void* base;
    const uint64_t *dims, *strides;
    const uint32_t* steps;
    int interleave, swizzle, fill;
};

// What tiled and im2col maps share; 0 or the driver's error.
int encode(TensorMap& map, const Common& c, uint32_t lowest_rank) {
    if (c.type < 0 || c.type >= type_count) return refuse("unknown data type");
    if (c.rank < lowest_rank || c.rank > 5) return refuse("the rank is out of range");
    if (c.interleave != 0) return refuse("interleaved tensors are not emulated");
    if (c.swizzle < 0 || c.swizzle > swizzle_128_atom_32) return refuse("this swizzle is not emulated");
    if (c.fill < 0 || c.fill > 1 || (c.fill == 1 && !is_float(c.type))) return refuse("only floats can be filled with NaN");
    if (reinterpret_cast<uintptr_t>(c.base) % (is_padded(c.type) ? 32 : 16)) return refuse("the address is not aligned to 16 bytes (32 for padded units)");
    map = TensorMap{};
    map.magic = tensor_map_magic;
    map.base = reinterpret_cast<uintptr_t>(c.base);
    map.type = (uint8_t)c.type;
    map.rank = (uint8_t)c.rank;
    map.swizzle = (uint8_t)c.swizzle;
    map.fill_nan = (uint8_t)c.fill;
    for (uint32_t d = 0; d < c.rank; ++d) {
        if (c.dims[d] == 0 || c.dims[d] > uint64_t(1) << 32) return refuse("an extent is not in 1 .. 2^32");
        if (c.steps[d] == 0 || c.steps[d] > 8) return refuse("an element stride is not in 1 .. 8");
        map.last[d] = (uint32_t)(c.dims[d] - 1);
        map.steps[d] = (uint8_t)(d ? c.steps[d] : 1);  // without interleave the first one does not count
    }
    for (uint32_t d = 0; d + 1 < c.rank; ++d) {
        const uint64_t multiple = is_padded(c.type) ? 32 : 16;
        if (c.strides[d] % multiple || c.strides[d] >= uint64_t(1) << 40) return refuse("a stride is not a multiple of 16 bytes (32 for padded units) below 2^40");
        map.strides[d] = c.strides[d];
    }
    return 0;
}

int check_line(const TensorMap& map) {
    const Unit unit = unit_of(map);
    if (map.box[0] % unit.elements) return refuse("the box does not hold whole groups of packed elements");
    if (is_padded(map.type) && map.box[0] != 128) return refuse("the box of padded units is 128 elements wide");
    if (line_bytes(map) % 16) return refuse("a line of the box is not a multiple of 16 bytes");
    if (map.swizzle && line_bytes(map) > swizzle_span(map.swizzle)) return refuse("a line of the box is longer than the swizzle");
    return 0;
}

}  // namespace

Unit unit_of(const TensorMap& map) { return units[map.type]; }

uint32_t swizzle_span(uint8_t swizzle) {
    return swizzle == swizzle_none ? 16 : swizzle == swizzle_32 ? 32 : swizzle == swizzle_64 ? 64 : 128;
}

uint32_t line_bytes(const TensorMap& map) {
    const Unit unit = unit_of(map);
    return map.box[0] / unit.elements * unit.shared_bytes;
}

uint32_t line_pitch(const TensorMap& map) { return map.swizzle ? swizzle_span(map.swizzle) : line_bytes(map); }

uint32_t line_count(const TensorMap& map) {
    if (map.im2col) return map.pixels;
    uint32_t count = 1;
    for (int d = 1; d < map.rank; ++d) count *= (map.box[d] + map.steps[d] - 1u) / map.steps[d];
    return count;
}

}  // namespace tl_emu

using namespace tl_emu;

// Why the last encoding of this thread was refused.
extern "C" const char* tl_emu_tensor_map_reason(void) { return reason; }

// The arguments of cuTensorMapEncodeTiled and its result: 0, or 1 for an invalid value.
extern "C" int tl_emu_tensor_map_tiled(void* out, int type, uint32_t rank, void* base, const uint64_t* dims,
                                       const uint64_t* strides, const uint32_t* box, const uint32_t* steps,
                                       int interleave, int swizzle, int, int fill) {
    TensorMap map;
    if (const int error = encode(map, {type, rank, base, dims, strides, steps, interleave, swizzle, fill}, 1)) return error;
    for (uint32_t d = 0; d < rank; ++d) {
        if (box[d] == 0 || box[d] > 256) return refuse("an extent of the box is not in 1 .. 256");
        map.box[d] = (uint16_t)box[d];
    }
    if (const int error = check_line(map)) return error;
    std::memcpy(out, &map, sizeof(map));
    return 0;
}

// The arguments of cuTensorMapEncodeIm2col; corners are of the spatial dims, width first.
extern "C" int tl_emu_tensor_map_im2col(void* out, int type, uint32_t rank, void* base, const uint64_t* dims,
                                        const uint64_t* strides, const int* lower, const int* upper, uint32_t channels,
                                        uint32_t pixels, const uint32_t* steps, int interleave, int swizzle, int, int fill) {
    TensorMap map;
    if (const int error = encode(map, {type, rank, base, dims, strides, steps, interleave, swizzle, fill}, 3)) return error;
    if (channels == 0 || channels > 256) return refuse("the channels of a pixel are not in 1 .. 256");
    if (pixels == 0 || pixels > 1024) return refuse("the pixels of a column are not in 1 .. 1024");
    const int limit = rank == 3 ? 1 << 15 : rank == 4 ? 1 << 7 : 1 << 4;
    for (uint32_t d = 0; d + 2 < rank; ++d) {
        if (lower[d] < -limit || lower[d] >= limit || upper[d] < -limit || upper[d] >= limit) return refuse("a corner of the box is out of range for the rank");
        map.lower[d] = (int16_t)lower[d];
        map.upper[d] = (int16_t)upper[d];
    }
    map.im2col = 1;
    map.box[0] = (uint16_t)channels;
    map.pixels = (uint16_t)pixels;
    if (const int error = check_line(map)) return error;
    std::memcpy(out, &map, sizeof(map));
    return 0;
}
