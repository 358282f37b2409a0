// What the tensor memory accelerator moves: the lines of a box between a tensor and shared memory.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor_map.h"

namespace tl_emu {

// A box at run time. `at`: coordinates, innermost first. `offsets`: of the spatial dims of an im2col map.
struct Box {
    TensorMap map;
    int32_t at[5];
    uint16_t offsets[3];
};

// The address of a tile in shared memory: the swizzle depends on the address that the hardware sees.
struct TilePlace {
    uint8_t* data;
    uint32_t address;
};

// Fills the tiles at all places (more than one: multicast) with the box, zeros or NaN outside of the tensor.
void load_box(const Box& box, const TilePlace* places, int count);
// Stores the tile without elements outside of the tensor. what: '=' or a reduction of atomics.h.
void store_box(const Box& box, const TilePlace& place, char what);

struct Range {
    const void* address;
    size_t bytes;
};
// Global memory of the box, neighbouring lines joined.
std::vector<Range> global_ranges(const Box& box);
// Shared memory of the tile.
std::vector<Range> shared_ranges(const TensorMap& map, const TilePlace& place);

}  // namespace tl_emu
