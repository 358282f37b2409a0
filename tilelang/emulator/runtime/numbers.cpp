// Number formats and arithmetic with a rounding mode.
#include "numbers.h"

#include <cfenv>
#include <cmath>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")  // vectors, which clang makes at every level
#endif

namespace tl_emu {

float number_of(Kind kind, uint32_t code) {
    switch (kind) {
        case kind_f16: return decode(f16_format, code);
        case kind_bf16: return float_of(code << 16);
        case kind_tf32: return float_of(code & 0xffffe000u);
        case kind_f32: return float_of(code);
        case kind_e4m3: return decode(e4m3_format, code);
        case kind_e5m2: return decode(e5m2_format, code);
        case kind_e2m3: return decode(e2m3_format, code);
        case kind_e3m2: return decode(e3m2_format, code);
        case kind_e2m1: return decode(e2m1_format, code);
        case kind_e8m0: return decode_e8m0(code);
        case kind_e4m3fnuz: return decode(e4m3fnuz_format, code);
        case kind_e5m2fnuz: return decode(e5m2fnuz_format, code);
        default: return float_of(canonical_nan);
    }
}

uint32_t code_of(Kind kind, float x) {
    switch (kind) {
        case kind_f16: return encode(f16_format, x);
        case kind_bf16: return encode(bf16_format, x);
        // Half away from zero, as cvt.rna.
        case kind_tf32: return x - x == 0 ? (bits_of(x) + 0x1000u) & 0xffffe000u : bits_of(x);
        case kind_f32: return x == x ? bits_of(x) : canonical_nan;
        case kind_e4m3: return encode(e4m3_format, x);
        case kind_e5m2: return encode(e5m2_format, x);
        case kind_e2m3: return encode(e2m3_format, x);
        case kind_e3m2: return encode(e3m2_format, x);
        case kind_e2m1: return encode(e2m1_format, x);
        case kind_e8m0: return encode_e8m0(x);
        case kind_e4m3fnuz: return encode(e4m3fnuz_format, x);
        case kind_e5m2fnuz: return encode(e5m2fnuz_format, x);
        default: return 0;
    }
}

float narrow_to_odd(double x) {
    if (x != x) return float_of(canonical_nan);
    float f = (float)x;
    if ((double)f == x) return f;
    if (std::fabs((double)f) > std::fabs(x)) f = float_of(bits_of(f) - 1);
    return float_of(bits_of(f) | 1u);
}

uint32_t code_of(Kind kind, double x) {
    return kind == kind_f32 ? bits_of(narrow(x)) : code_of(kind, narrow_to_odd(x));
}

namespace {

// Formats of eight bits by table.
template <const Format& format> struct Numbers {
    double of[256];
    Numbers() {
        for (unsigned code = 0; code < 256; ++code) of[code] = decode(format, code);
    }
};
template <const Format& format> const Numbers<format> all_numbers;

template <const Format& format> void decode_all(const uint32_t* codes, double* out, size_t count) {
    for (size_t i = 0; i < count; ++i) out[i] = all_numbers<format>.of[codes[i] & 255];
}

// Without the cases of `decode`: the exponent is moved, a product places subnormal numbers.
void decode_halves(const uint32_t* codes, double* out, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        const uint32_t body = codes[i] & 0x7fffu, sign = (codes[i] & 0x8000u) << 16;
        const float scaled = float_of(body << 13) * 5.192296858534828e+33f;  // 2^112
        const uint32_t special = float_of(body << 13) >= float_of(0x0f800000u) ? 0x7f800000u : 0u;
        out[i] = float_of(bits_of(scaled) | special | sign);
    }
}

}  // namespace

void numbers_of(Kind kind, const uint32_t* codes, double* out, size_t count) {
    switch (kind) {
        case kind_f16: return decode_halves(codes, out, count);
        case kind_e4m3: return decode_all<e4m3_format>(codes, out, count);
        case kind_e5m2: return decode_all<e5m2_format>(codes, out, count);
        case kind_bf16:
            for (size_t i = 0; i < count; ++i) out[i] = float_of(codes[i] << 16);
            return;
        case kind_tf32:
            for (size_t i = 0; i < count; ++i) out[i] = float_of(codes[i] & 0xffffe000u);
            return;
        default:
            for (size_t i = 0; i < count; ++i) out[i] = number_of(kind, codes[i]);
    }
}

void integers_of(Kind kind, const uint32_t* codes, int32_t* out, size_t count) {
    const unsigned unused = 32 - kind_bits(kind);
    if (kind_is_signed(kind)) {
        for (size_t i = 0; i < count; ++i) out[i] = (int32_t)(codes[i] << unused) >> unused;
    } else {
        for (size_t i = 0; i < count; ++i) out[i] = (int32_t)(codes[i] << unused >> unused);
    }
}

namespace {

// Sets a rounding mode for a scope. The operands and results of what is computed there are volatile, so that
// no compiler moves the operation out of the scope.
class Rounding {
  public:
    explicit Rounding(char mode) : before_(std::fegetround()) {
        std::fesetround(mode == 'z' ? FE_TOWARDZERO : mode == 'u' ? FE_UPWARD : mode == 'd' ? FE_DOWNWARD : FE_TONEAREST);
    }
    ~Rounding() { std::fesetround(before_); }
    Rounding(const Rounding&) = delete;
    Rounding& operator=(const Rounding&) = delete;

  private:
    int before_;
};

template <class T> T directed(char what, char mode, T a, T b, T c) {
    volatile T x = a, y = b, z = c, one = 1, result;
    Rounding scope(mode);
    switch (what) {
        case '+': result = x + y; break;
        case '-': result = x - y; break;
        case '*': result = x * y; break;
        case '/': result = x / y; break;
        case 'r': result = one / x; break;
        case 's': result = std::sqrt((T)x); break;
        default: result = std::fma((T)x, (T)y, (T)z); break;
    }
    return result;
}

}  // namespace
}  // namespace tl_emu

extern "C" {

float tl_emu_directed_f32(char what, char mode, float a, float b, float c) {
    const float r = tl_emu::directed<float>(what, mode, a, b, c);
    return r == r ? r : tl_emu::float_of(tl_emu::canonical_nan);
}
double tl_emu_directed_f64(char what, char mode, double a, double b, double c) {
    return tl_emu::directed<double>(what, mode, a, b, c);
}
float tl_emu_narrow_f64(char mode, double a) {
    volatile double x = a;
    tl_emu::Rounding scope(mode);
    volatile float r = (float)x;
    return r;
}

// 1 / sqrt(x) to the nearest float: the estimate from double is off by at most one place, and a midpoint m is
// above the result exactly when x m^2 > 1, which integers decide.
float tl_emu_rsqrt_rn(float x) {
    if (!(x > 0) || x - x != 0) return x == 0 ? std::copysign(INFINITY, x) : x > 0 ? 0.0f : tl_emu::float_of(tl_emu::canonical_nan);
    float best = (float)(1.0 / std::sqrt((double)x));
    int ex;
    const uint64_t mx = (uint64_t)std::ldexp(std::frexp(x, &ex), 24);  // x = mx * 2^(ex - 24)
    for (int side = 0; side < 2; ++side) {
        const bool up = side == 0;
        const float other = std::nextafter(best, up ? INFINITY : 0.0f);
        const double middle = ((double)best + (double)other) / 2;
        int em;
        const uint64_t mm = (uint64_t)std::ldexp(std::frexp(middle, &em), 25);  // 25 bits hold a midpoint
        const unsigned __int128 product = (unsigned __int128)mm * mm * mx;
        const int one_at = 50 + 24 - 2 * em - ex;  // x m^2 = product * 2^-one_at
        const bool above = one_at < 0 || (one_at < 127 && product > (unsigned __int128)1 << one_at);
        if (above != up) return other;  // the midpoint is below 1/sqrt(x) going up, above it going down
    }
    return best;
}

}  // extern "C"
