// Tensor maps: the 128 bytes that describe a tensor in global memory to the tensor memory accelerator. The host's
// encoding functions fill them from the arguments of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col; the
// layout inside is our own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../include/tl_kinds.h"

namespace tl_emu {

// Values of CUtensorMapSwizzle, CUtensorMapInterleave.
enum Swizzle : uint8_t { swizzle_none, swizzle_32, swizzle_64, swizzle_128, swizzle_128_atom_32 };

struct alignas(64) TensorMap {
    uint64_t magic;
    uint64_t base;
    uint64_t strides[4];  // bytes, of dims 1 ..
    uint32_t last[5];     // extents less one, innermost first
    uint16_t box[5];      // of a tile, in elements; im2col: channels in box[0]
    uint16_t pixels;      // of an im2col column
    int16_t lower[3], upper[3];
    uint8_t steps[5];  // between elements that are taken
    uint8_t type, rank, swizzle, fill_nan, im2col;
};
static_assert(sizeof(TensorMap) == 128, "the size of CUtensorMap");
constexpr uint64_t tensor_map_magic = 0x70616d726f736e65ull;

// What elements are in memory: `elements` of them take global_bytes there and shared_bytes in shared memory.
struct Unit {
    Kind kind;
    uint32_t elements, global_bytes, shared_bytes;
};
Unit unit_of(const TensorMap& map);

// Bytes of a line of a tile in shared memory: with a swizzle the whole span, also when the line is shorter.
uint32_t swizzle_span(uint8_t swizzle);
uint32_t line_bytes(const TensorMap& map);
uint32_t line_pitch(const TensorMap& map);
uint32_t line_count(const TensorMap& map);

// The bits that a swizzle changes of an address in shared memory.
constexpr uint32_t swizzle_bits(uint8_t swizzle, uint32_t address) {
    switch (swizzle) {
        case swizzle_32: return (address >> 7 & 1) << 4;
        case swizzle_64: return (address >> 7 & 3) << 4;
        case swizzle_128: return (address >> 7 & 7) << 4;
        case swizzle_128_atom_32: return (address >> 7 & 3) << 5;
        default: return 0;
    }
}

}  // namespace tl_emu
