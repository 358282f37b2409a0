// Elements of every number format of the instructions, for the units of the runtime that compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "../include/tl_formats.h"
#include "../include/tl_kinds.h"

namespace tl_emu {

// The number of a floating-point code. tf32 is what a tensor core sees of a float32: its upper 19 bits.
float number_of(Kind kind, uint32_t code);
// The code of the nearest number.
uint32_t code_of(Kind kind, float x);
// The same for double, rounded once.
uint32_t code_of(Kind kind, double x);
// float32 of a double: nearest; every NaN is the canonical one.
inline float narrow(double x) { return x == x ? (float)x : float_of(canonical_nan); }
// A float64 as the float32 that rounds to any shorter format as the float64 would: to odd.
float narrow_to_odd(double x);
// count codes to numbers; integer kinds become whole numbers.
void numbers_of(Kind kind, const uint32_t* codes, double* out, size_t count);
void integers_of(Kind kind, const uint32_t* codes, int32_t* out, size_t count);

// Element `index` of a row of packed elements of at most 32 bits.
inline uint32_t element(const void* row, unsigned bits, size_t index) {
    const auto* bytes = static_cast<const uint8_t*>(row);
    if (bits == 32) {
        uint32_t word;
        std::memcpy(&word, bytes + 4 * index, 4);
        return word;
    }
    if (bits == 16) {
        uint16_t half;
        std::memcpy(&half, bytes + 2 * index, 2);
        return half;
    }
    if (bits == 8) return bytes[index];
    return bytes[index / 2] >> (index % 2 * 4) & 15u;
}

}  // namespace tl_emu
