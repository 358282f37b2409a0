// Tensor memory of sm_100 and the products that leave their sums in it.
//
// Only what the manual says in words and figures is here; none of it has been compared with hardware yet.
#pragma once

#include <memory>
#include <vector>

#include "warpgroup.h"

namespace tl_emu {

constexpr uint32_t tmem_lanes = 128, tmem_columns = 512;

// A word of tensor memory has the address lane << 16 | column.
struct TensorCells {
    uint32_t words[tmem_lanes][tmem_columns];
};

// The 32-bit descriptor of an instruction.
struct TensorInstruction {
    unsigned m, n, k;
    Kind a, b, c;
    unsigned flags;  // WarpgroupFlag
};
// kind: 'h' f16, 't' tf32, '8' f8f6f4, 'i' i8. Null, or what is wrong with the descriptor.
const char* decode_instruction(char kind, uint32_t bits, TensorInstruction& out);

// d[m][n] = a[m][k] b[k][n] (+ d). Rows of d are lanes: all 128, or for m = 64 the first 16 of each 32; a result
// of 16 bits takes the low half of a word.
struct TensorProduct {
    TensorInstruction instruction;
    bool accumulate, a_in_tensor_memory;
    uint32_t d, a;  // addresses in tensor memory
    MatrixPlace place_a, place_b;
    SharedWindow shared;
    uint32_t disabled[4];  // bit masks of lanes that stay as they are

    void run(TensorCells& cells) const;
};

// Which word of tensor memory register `slot` of a lane is, for the shapes of tcgen05.ld and st: rows 32, 16; bits
// 32, 64, 128, 256. The lane of tensor memory counts from the address in the instruction.
struct TensorPlace {
    uint32_t lane, column;
};
TensorPlace fragment_place(unsigned rows, unsigned bits, unsigned lane, unsigned slot);
unsigned fragment_registers(unsigned rows, unsigned bits, unsigned repeats);

}  // namespace tl_emu
