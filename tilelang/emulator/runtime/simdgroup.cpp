// Products of 8 x 8 matrices in the registers of a simdgroup of an Apple GPU.
#include "state.h"
#include "tl_emu.h"

namespace {

// Where the lanes of kernels' headers have an element (metal/metal_stdlib): row and column.
int row_of(int lane) { return (lane & 16) / 4 + lane / 2 % 4; }
int column_of(int lane, int number) { return (lane & 8) / 2 + lane % 2 * 2 + number; }

// Sums are float32, one product after the other along k.
template <class Mask> void multiply(void** lanes, Mask) {
    float a[8][8] = {}, b[8][8] = {};
    for (int lane = 0; lane < 32; ++lane)
        if (const auto* held = static_cast<const float*>(lanes[lane]))
            for (int k = 0; k < 2; ++k) {
                a[row_of(lane)][column_of(lane, k)] = held[k];
                b[row_of(lane)][column_of(lane, k)] = held[2 + k];
            }
    for (int lane = 0; lane < 32; ++lane)
        if (auto* held = static_cast<float*>(lanes[lane]))
            for (int k = 0; k < 2; ++k) {
                float sum = held[4 + k];
                for (int at = 0; at < 8; ++at) sum += a[row_of(lane)][at] * b[at][column_of(lane, k)];
                held[6 + k] = sum;
            }
}

}  // namespace

extern "C" void tl_emu_multiply_8x8(float* held) {
    const tl_emu::Multiplying unit;
    tl_emu::collective("simdgroup_multiply_accumulate", 0xffffffffu, held, multiply, TL_EMU_PC());
}
