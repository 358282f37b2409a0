// Bits of the small floating-point formats, rounded as the conversions of the hardware do: to nearest, ties
// to even, one canonical NaN. Kernels and the runtime share this file; it needs no other header.
#ifndef TL_FORMATS_H
#define TL_FORMATS_H

namespace tl_emu {

// What a conversion makes of numbers above the largest: infinity, or the largest number itself.
enum class Above { infinity, largest };

struct Format {
    int exponent, mantissa, bias;
    unsigned largest;   // code of the largest finite number
    unsigned nan;       // code that a NaN becomes; in formats without NaN a number
    bool infinity;      // the code above `largest` is infinity, the ones above that are NaN
    bool has_nan;       // without infinity: the code `nan` is not a number
    bool negative_zero; // without: the code of -0 is the NaN
    Above above;
};

constexpr Format f16_format = {5, 10, 15, 0x7bff, 0x7fff, true, true, true, Above::infinity};
constexpr Format bf16_format = {8, 7, 127, 0x7f7f, 0x7fff, true, true, true, Above::infinity};
constexpr Format e3m4_format = {3, 4, 3, 0x6f, 0x7f, true, true, true, Above::largest};
constexpr Format e4m3_format = {4, 3, 7, 0x7e, 0x7f, false, true, true, Above::largest};
constexpr Format e4m3fnuz_format = {4, 3, 8, 0x7f, 0x80, false, true, false, Above::largest};
constexpr Format e4m3b11fnuz_format = {4, 3, 11, 0x7f, 0x80, false, true, false, Above::largest};
constexpr Format e5m2_format = {5, 2, 15, 0x7b, 0x7f, true, true, true, Above::largest};
constexpr Format e5m2fnuz_format = {5, 2, 16, 0x7f, 0x80, false, true, false, Above::largest};
constexpr Format e2m3_format = {2, 3, 1, 0x1f, 0x1f, false, false, true, Above::largest};
constexpr Format e3m2_format = {3, 2, 3, 0x1f, 0x1f, false, false, true, Above::largest};
constexpr Format e2m1_format = {2, 1, 1, 0x07, 0x07, false, false, true, Above::largest};

constexpr unsigned canonical_nan = 0x7fffffffu;  // of a float32 that an instruction makes

inline float float_of(unsigned bits) { return __builtin_bit_cast(float, bits); }
inline unsigned bits_of(float x) { return __builtin_bit_cast(unsigned, x); }

// The number of a code; bits above those of the format are ignored.
inline __attribute__((always_inline)) float decode(const Format& f, unsigned code) {
    const unsigned top = 1u << (f.exponent + f.mantissa);
    const unsigned body = code & (top - 1), sign = code & top ? 0x80000000u : 0u;
    if (f.infinity ? body > f.largest + 1 : f.has_nan && (f.negative_zero ? body == f.nan : (code & (2 * top - 1)) == f.nan))
        return float_of(canonical_nan);
    if (f.infinity && body == f.largest + 1) return float_of(sign | 0x7f800000u);
    const unsigned e = body >> f.mantissa, m = body & ((1u << f.mantissa) - 1);
    if (f.exponent == 8) return float_of(sign | body << (23 - f.mantissa));
    // The unit of the last place is a normal float32 in every format with fewer bits of exponent.
    const float unit = float_of((unsigned)((e ? (int)e : 1) - f.bias - f.mantissa + 127) << 23);
    const float size = (float)(int)(e ? m + (1u << f.mantissa) : m) * unit;
    return float_of(bits_of(size) | sign);
}

// The code of the nearest number, ties to even.
inline __attribute__((always_inline)) unsigned encode(const Format& f, float x) {
    const unsigned u = bits_of(x), a = u & 0x7fffffffu;
    const unsigned sign = (u >> 31) << (f.exponent + f.mantissa);
    if (a > 0x7f800000u) return f.nan;
    const int e = (int)(a >> 23) ? (int)(a >> 23) : 1;
    const unsigned s = (a & 0x7fffffu) | (a >> 23 ? 0x800000u : 0u);  // x = s * 2^(e - 150)
    const int exponent = e - 127 < 1 - f.bias ? 1 - f.bias : e - 127;
    const int drop = exponent - f.mantissa - (e - 150);
    const unsigned q = drop > 25 ? 0u : (s + (1u << (drop - 1)) - 1 + (s >> drop & 1)) >> drop;
    unsigned code = ((unsigned)(exponent + f.bias - 1) << f.mantissa) + q;
    if (code > f.largest) code = f.above == Above::infinity ? f.largest + 1 : f.largest;
    return code == 0 && !f.negative_zero ? 0u : code | sign;
}

// Powers of two without sign: 2^(code - 127), 255 is NaN. Nearest in the exponent's own scale.
inline float decode_e8m0(unsigned code) {
    return float_of(code == 255 ? canonical_nan : code == 0 ? 0x400000u : code << 23);
}
inline unsigned encode_e8m0(float x) {
    const unsigned a = bits_of(x) & 0x7fffffffu;
    if (a > 0x7f800000u) return 255u;
    const unsigned code = a < 0x800000u ? a >= 0x600000u : (a + 0x400000u) >> 23;
    return code > 254u ? 254u : code;
}

}  // namespace tl_emu
#endif
