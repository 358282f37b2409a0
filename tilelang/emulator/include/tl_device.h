// Words of the device language itself, for the headers of the device that are plain C++ and are read here as
// they are: integers, conversions, rounding modes. Only builtins of the host compiler, no C library header,
// because the fixed-width integers of a kernel are not those of the host.
#ifndef TL_DEVICE_H
#define TL_DEVICE_H
#include "tl_types.h"

// -- the C library's mathematics, declared without its header ----------------------------------------------
#define TL_LIBRARY1(N) extern "C" float N##f(float) noexcept; extern "C" double N(double) noexcept;
TL_LIBRARY1(exp) TL_LIBRARY1(exp2) TL_LIBRARY1(log) TL_LIBRARY1(log2) TL_LIBRARY1(log10) TL_LIBRARY1(log1p)
TL_LIBRARY1(expm1) TL_LIBRARY1(sqrt) TL_LIBRARY1(tanh) TL_LIBRARY1(sin) TL_LIBRARY1(cos) TL_LIBRARY1(tan)
TL_LIBRARY1(sinh) TL_LIBRARY1(cosh) TL_LIBRARY1(asin) TL_LIBRARY1(acos) TL_LIBRARY1(atan) TL_LIBRARY1(asinh)
TL_LIBRARY1(acosh) TL_LIBRARY1(atanh) TL_LIBRARY1(erf) TL_LIBRARY1(floor) TL_LIBRARY1(ceil) TL_LIBRARY1(trunc)
TL_LIBRARY1(nearbyint) TL_LIBRARY1(round) TL_LIBRARY1(fabs)
#define TL_LIBRARY2(N) extern "C" float N##f(float, float) noexcept; extern "C" double N(double, double) noexcept;
TL_LIBRARY2(atan2) TL_LIBRARY2(hypot) TL_LIBRARY2(fmod) TL_LIBRARY2(copysign) TL_LIBRARY2(nextafter) TL_LIBRARY2(pow)
extern "C" float ldexpf(float, int) noexcept;
extern "C" double ldexp(double, int) noexcept;
extern "C" float fmaf(float, float, float) noexcept;
extern "C" double fma(double, double, double) noexcept;
// Not in every C library.
TL_INLINE float tl_device_exp10(float x) { return (float)pow(10.0, (double)x); }
TL_INLINE double tl_device_exp10(double x) { return pow(10.0, x); }
TL_INLINE float rsqrtf(float x) { return (float)(1.0 / sqrt((double)x)); }
TL_INLINE double rsqrt(double x) { return 1.0 / sqrt(x); }
// The smaller and the larger; a NaN loses against a number, -0 is below +0.
template <class T> TL_INLINE T tl_device_fmin(T a, T b) {
    if (a != a) return b;
    return a < b || b != b || (a == b && __builtin_signbit(a)) ? a : b;
}
template <class T> TL_INLINE T tl_device_fmax(T a, T b) {
    if (a != a) return b;
    return a > b || b != b || (a == b && !__builtin_signbit(a)) ? a : b;
}

// -- bits ------------------------------------------------------------------------------------------------------
TL_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
TL_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
TL_INLINE int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
TL_INLINE int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
TL_INLINE int __ffs(int x) { return __builtin_ffs(x); }
TL_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
TL_INLINE unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }

// -- to integers: truncated, saturated; a NaN gives 0, or the top bit of 64 -------------------------------------
#define TL_TRUNCATE(NAME, F, T, LOW, HIGH, NAN_CODE)                                                     \
    TL_INLINE T NAME(F x) {                                                                              \
        if (x != x) return NAN_CODE;                                                                     \
        return x <= (F)LOW ? LOW : x >= (F)HIGH ? HIGH : (T)x;                                           \
    }
#define TL_LL_MIN (-9223372036854775807ll - 1)
TL_TRUNCATE(__float2int_rz, float, int, (-2147483647 - 1), 2147483647, 0)
TL_TRUNCATE(__float2uint_rz, float, unsigned, 0u, 4294967295u, 0u)
TL_TRUNCATE(__float2ll_rz, float, long long, TL_LL_MIN, 9223372036854775807ll, TL_LL_MIN)
TL_TRUNCATE(__float2ull_rz, float, unsigned long long, 0ull, 18446744073709551615ull, 9223372036854775808ull)
TL_TRUNCATE(__double2int_rz, double, int, (-2147483647 - 1), 2147483647, 0)
TL_TRUNCATE(__double2uint_rz, double, unsigned, 0u, 4294967295u, 0u)
TL_TRUNCATE(__double2ll_rz, double, long long, TL_LL_MIN, 9223372036854775807ll, TL_LL_MIN)
TL_TRUNCATE(__double2ull_rz, double, unsigned long long, 0ull, 18446744073709551615ull, 9223372036854775808ull)

// -- arithmetic with a rounding mode: in the runtime, which is compiled for changing it ------------------------
// what: the letter of the operation (+ - * / r: reciprocal, s: square root, f: a x b + c, n: narrowing of a).
extern "C" float tl_emu_directed_f32(char what, char mode, float a, float b, float c);
extern "C" double tl_emu_directed_f64(char what, char mode, double a, double b, double c);
extern "C" float tl_emu_narrow_f64(char mode, double a);
extern "C" float tl_emu_rsqrt_rn(float a);
#define TL_ROUNDED(P, F, T, M, LETTER, FMA)                                                              \
    TL_INLINE T __##P##add_##M(T a, T b) { return tl_emu_directed_##F('+', LETTER, a, b, 0); }           \
    TL_INLINE T __##P##sub_##M(T a, T b) { return tl_emu_directed_##F('-', LETTER, a, b, 0); }           \
    TL_INLINE T __##P##mul_##M(T a, T b) { return tl_emu_directed_##F('*', LETTER, a, b, 0); }           \
    TL_INLINE T __##P##div_##M(T a, T b) { return tl_emu_directed_##F('/', LETTER, a, b, 0); }           \
    TL_INLINE T __##P##rcp_##M(T a) { return tl_emu_directed_##F('r', LETTER, a, 0, 0); }                \
    TL_INLINE T __##P##sqrt_##M(T a) { return tl_emu_directed_##F('s', LETTER, a, 0, 0); }               \
    TL_INLINE T FMA##_##M(T a, T b, T c) { return tl_emu_directed_##F('f', LETTER, a, b, c); }
TL_ROUNDED(f, f32, float, rn, 'n', __fmaf) TL_ROUNDED(f, f32, float, rz, 'z', __fmaf)
TL_ROUNDED(f, f32, float, ru, 'u', __fmaf) TL_ROUNDED(f, f32, float, rd, 'd', __fmaf)
TL_ROUNDED(d, f64, double, rn, 'n', __fma) TL_ROUNDED(d, f64, double, rz, 'z', __fma)
TL_ROUNDED(d, f64, double, ru, 'u', __fma) TL_ROUNDED(d, f64, double, rd, 'd', __fma)
TL_INLINE float __double2float_rz(double a) { return tl_emu_narrow_f64('z', a); }
TL_INLINE float __frsqrt_rn(float a) { return tl_emu_rsqrt_rn(a); }

// -- approximations of the hardware: here the exact functions, which are inside their error bounds --------------
TL_INLINE float __expf(float x) { return expf(x); }
TL_INLINE float __exp10f(float x) { return tl_device_exp10(x); }
TL_INLINE float __logf(float x) { return logf(x); }
TL_INLINE float __log2f(float x) { return log2f(x); }
TL_INLINE float __log10f(float x) { return log10f(x); }
TL_INLINE float __sinf(float x) { return sinf(x); }
TL_INLINE float __cosf(float x) { return cosf(x); }
TL_INLINE float __tanf(float x) { return tanf(x); }
#endif
