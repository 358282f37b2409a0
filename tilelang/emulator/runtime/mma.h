// Products of small matrices, as every matrix unit of the hardware computes them.
#pragma once

#include "numbers.h"

namespace tl_emu {

// One instruction of a warp: shape, formats.
struct MmaAtom {
    unsigned m, n, k;
    Kind a, b, c;
};
// The registers of a factor as codes. `down` and `along` are the distances of its rows (A) or columns (B) and of k
// in `codes`.
void gather(Kind kind, unsigned rows, unsigned k, const void* const lanes[32], uint32_t* codes, unsigned down, unsigned along);

// d[m][n] += a[m][k] b[k][n], all as numbers; m is a multiple of four and n of eight.
//
// The products of floating-point factors are exact and so, but for sums that span more than 53 bits, is the sum
// of one call; it is rounded once, to nearest, to the format of the result. Tensor cores align the terms to the
// largest, truncate them to about 24 bits (13 for fp8 on sm_90) before they add, and round the sum
// towards zero: a result of theirs differs by at most (k + 1) 2^-23 (fp8: 2^-13) of the largest |a b| or |c|.
void multiply(unsigned m, unsigned n, unsigned k, const double* a, const double* b, double* d);
// Integer sums wrap.
void multiply(unsigned m, unsigned n, unsigned k, const int32_t* a, const int32_t* b, int32_t* d);

// Which elements of a sparse A are there: of each group of four (two of 32 bits) along k half of them.
struct Sparsity {
    uint32_t metadata[32];  // of each lane
    unsigned selector;      // which lanes of a quad count
};

// The instruction on the registers of 32 lanes; with `sparse` A has k / 2 columns. The order of the metadata is
// that of an H200 for elements of 16 and 32 bits; for smaller ones it has not been compared with hardware yet.
void mma_warp(const MmaAtom& atom, void* const d[32], const void* const a[32], const void* const b[32],
              const Sparsity* sparse = nullptr);

// The instruction of sm_70: four products of 8 x 8 and 4 deep, one for each pair of quads, of float16 with sums of
// float16 or float32. a_columns, b_columns: a thread holds part of a column of A, of B, instead of a row.
void mma_quads(bool a_columns, bool b_columns, Kind c, void* const d[32], const void* const a[32], const void* const b[32]);

}  // namespace tl_emu
