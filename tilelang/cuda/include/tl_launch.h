// Orders in which blocks visit the grid: panels of rows or columns, back and forth, so that blocks that
// run together share operands in the L2 cache. Each order is a permutation of the grid.
#ifndef TL_LAUNCH_H
#define TL_LAUNCH_H
#include "tl_types.h"

// The place in a panel of `panel` lines over `length` steps; .x along the steps, .y across the lines.
TL_INLINE uint2 tl_panel(uint32_t linear, uint32_t length, uint32_t lines, uint32_t panel) {
    const uint32_t number = linear / (panel * length), offset = linear % (panel * length);
    const uint32_t rest = lines - number * panel;
    const uint32_t height = rest < panel ? rest : panel;
    const uint32_t along = offset / height;
    return make_uint2(number & 1u ? length - 1 - along : along, number * panel + offset % height);
}
template <int PANEL> TL_INLINE uint2 tl_swizzle_row() {
    return tl_panel(blockIdx.x + blockIdx.y * gridDim.x, gridDim.x, gridDim.y, PANEL);
}
template <int PANEL> TL_INLINE uint2 tl_swizzle_column() {
    const uint2 at = tl_panel(blockIdx.x + blockIdx.y * gridDim.x, gridDim.y, gridDim.x, PANEL);
    return make_uint2(at.y, at.x);
}
#endif
