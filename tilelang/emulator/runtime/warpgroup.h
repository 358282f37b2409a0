// Products of a warpgroup: operands in shared memory named by descriptors, sums in the registers of 128 threads.
#pragma once

#include <vector>

#include "mma.h"

namespace tl_emu {

// The layout of an operand in shared memory, decoded from a 64-bit descriptor.
//
// Lines are rows of M (columns of N) and run along k: "K-major", or rows of k that run along M or N: "MN-major".
// Eight lines make a core matrix. With a swizzle of W bytes a core's lines are W bytes apart and
// `stride` is the distance of cores across lines; along a line, the next W bytes are `leading` away (MN-major
// only). Without swizzle a core is eight lines of 16 bytes, one after the other; K-major cores are `stride`
// apart across lines and `leading` along k, MN-major ones `leading` apart across lines and `stride` along M or N.
struct MatrixPlace {
    uint32_t start, leading, stride;  // bytes
    uint32_t phase;                   // of the swizzle: address bits 7 .. 9 of a pattern that does not start at 0
    uint32_t span;                    // bytes that the swizzle permutes: 32, 64, 128; 16 for none
    uint8_t swizzle;                  // of tensor_map.h
    bool mn_major;

    // The address of byte `along` of line `line`.
    uint32_t address(uint32_t line, uint32_t along) const;
};

// A descriptor of wgmma; false: bits that have to be zero are not.
bool decode_wgmma(uint64_t descriptor, bool mn_major, MatrixPlace& place);
// One of tcgen05.
bool decode_tcgen05(uint64_t descriptor, bool mn_major, MatrixPlace& place);

// The shared memory of a block as descriptors see it.
struct SharedWindow {
    uint8_t* base;   // address 0
    uint32_t bytes;  // bytes above read as zero
};

// Codes of an operand of `lines` rows of M (columns of N) and k elements; `down` and `step` are the distances of
// the rows and of k in `codes`.
void read_matrix(const SharedWindow& shared, const MatrixPlace& place, Kind kind, unsigned lines, unsigned k,
                 uint32_t* codes, unsigned down, unsigned step);
// The shared memory that it takes, as first address and size, ascending.
std::vector<std::pair<uint32_t, uint32_t>> matrix_ranges(const MatrixPlace& place, Kind kind, unsigned lines, unsigned k);

enum WarpgroupFlag : unsigned { a_is_mn_major = 1, b_is_mn_major = 2, negate_a = 4, negate_b = 8, a_in_registers = 16 };

// d[64][n] = a[64][k] b[k][n] (+ d); see multiply() about rounding. The registers of a thread hold, for each eight
// columns, two of row lane / 4 and two of the row eight below.
struct WarpgroupProduct {
    unsigned n, k;
    Kind a, b, c;
    unsigned flags;
    bool accumulate;
    MatrixPlace place_a, place_b;
    SharedWindow shared;
    void* d[128];
    const void* registers_a[128];  // with a_in_registers

    void run() const;
};

}  // namespace tl_emu
