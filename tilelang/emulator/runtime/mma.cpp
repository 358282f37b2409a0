// mma.sync: one implementation for all shapes and formats. Which element a register holds follows from the rule
// of tilelang/target/atoms.py: eight rows of a factor times 16 bytes of k make a block, row i of it belongs to
// the lanes 4i .. 4i + 3, and the registers of a lane count the blocks, along the rows first, then along k.
#include "mma.h"

#include <algorithm>
#include <cmath>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")  // vectors, which clang makes at every level
#endif

namespace tl_emu {

namespace {

constexpr unsigned most_elements = 1024;  // of one factor: 16 x 64

template <unsigned bits>
void gather_bits(unsigned rows, unsigned k, const void* const lanes[32], uint32_t* codes, unsigned down, unsigned along) {
    constexpr unsigned per = 32 / bits;
    constexpr uint32_t mask = bits == 32 ? ~0u : (1u << bits % 32) - 1;
    for (unsigned lane = 0; lane < 32; ++lane) {
        const auto* registers = static_cast<const uint32_t*>(lanes[lane]);
        for (unsigned at = lane % 4 * per; at < k; at += 4 * per)
            for (unsigned row = lane / 4; row < rows; row += 8) {
                const uint32_t word = *registers++;
                uint32_t* out = codes + row * down + at * along;
                for (unsigned e = 0; e < per; ++e) out[e * along] = word >> e * bits & mask;
            }
    }
}
// Calls visit(row, column, lane, slot) for every element of the result.
template <class Visit> void each_result(unsigned m, Visit visit) {
    for (unsigned lane = 0; lane < 32; ++lane) {
        unsigned slot = 0;
        for (unsigned row = lane / 4; row < m; row += 8, slot += 2) {
            visit(row, lane % 4 * 2, lane, slot);
            visit(row, lane % 4 * 2 + 1, lane, slot + 1);
        }
    }
}

// Puts the elements of a sparse A where its metadata says; four bits are two places in a group, of four elements or
// of two words of 32 bits. With elements of 16 and 32 bits a thread of a quad has 16 bits for its row and 16 for the one
// eight below; with smaller ones it has 32 bits of one row, and its neighbour those of the row eight below.
void expand(const MmaAtom& t, const Sparsity& s, const uint32_t* stored, uint32_t* codes) {
    const unsigned group = kind_bits(t.a) == 32 ? 2 : 4, blocks = t.k / (4 * group), kept = group / 2;
    for (unsigned row = 0; row < t.m; ++row)
        for (unsigned g = 0; g < t.k / group; ++g) {
            const bool wide = kind_bits(t.a) >= 16;
            const unsigned lane = row % 8 * 4 + s.selector * blocks + (wide ? g / 4 : g / 8 * 2 + row / 8);
            const unsigned bits = s.metadata[lane % 32] >> (wide ? row / 8 * 16 + g % 4 * 4 : g % 8 * 4) & 15;
            for (unsigned e = 0; e < kept; ++e) {
                const unsigned place = kept == 1 ? (bits & 3) / 2 : bits >> 2 * e & 3;
                codes[row * t.k + g * group + place] = stored[row * t.k / 2 + g * kept + e];
            }
        }
}

// Loads the factors and the sum, multiplies, stores the sum. Element is what a register of the sum holds.
template <class Number, class Element, class Load, class In, class Out>
void product(const MmaAtom& t, const Sparsity* sparse, void* const d[32], const void* const a[32], const void* const b[32],
             Load load, In in, Out out) {
    uint32_t codes[most_elements];
    Number left[most_elements], right[most_elements], sum[16 * 8];
    if (sparse) {
        uint32_t stored[most_elements / 2];
        gather(t.a, t.m, t.k / 2, a, stored, t.k / 2, 1);
        std::fill_n(codes, t.m * t.k, 0u);
        expand(t, *sparse, stored, codes);
    } else {
        gather(t.a, t.m, t.k, a, codes, t.k, 1);
    }
    load(t.a, codes, left, t.m * t.k);
    gather(t.b, t.n, t.k, b, codes, 1, t.n);
    load(t.b, codes, right, t.n * t.k);
    each_result(t.m, [&](unsigned i, unsigned j, unsigned lane, unsigned slot) {
        sum[i * t.n + j] = in(static_cast<const Element*>(d[lane])[slot]);
    });
    multiply(t.m, t.n, t.k, left, right, sum);
    each_result(t.m, [&](unsigned i, unsigned j, unsigned lane, unsigned slot) {
        static_cast<Element*>(d[lane])[slot] = out(sum[i * t.n + j]);
    });
}

// float64: fused multiply-adds in the order of k. A lane holds one element of each factor.
void doubles(const MmaAtom& t, void* const d[32], const void* const a[32], const void* const b[32]) {
    each_result(t.m, [&](unsigned i, unsigned j, unsigned lane, unsigned slot) {
        double& sum = static_cast<double*>(d[lane])[slot];
        for (unsigned k = 0; k < t.k; ++k)
            sum = std::fma(*static_cast<const double*>(a[4 * i + k]), *static_cast<const double*>(b[4 * j + k]), sum);
    });
}

// Eight numbers; compilers split them over the registers that they have.
typedef double Eight __attribute__((vector_size(64)));
typedef uint32_t EightWords __attribute__((vector_size(32)));

// Four rows by eight columns at a time, sums in registers.
template <class Vector, class T>
inline __attribute__((always_inline)) void multiply_blocks(unsigned m, unsigned n, unsigned k, const T* a, const T* b, T* d) {
    for (unsigned i = 0; i < m; i += 4)
        for (unsigned j = 0; j < n; j += 8) {
            T* at = d + (size_t)i * n + j;
            const T* factors = a + (size_t)i * k;
            Vector sums[4];
            for (unsigned r = 0; r < 4; ++r) std::memcpy(&sums[r], at + (size_t)r * n, sizeof(Vector));
            for (unsigned x = 0; x < k; ++x) {
                Vector row;
                std::memcpy(&row, b + (size_t)x * n + j, sizeof(Vector));
                for (unsigned r = 0; r < 4; ++r) sums[r] += row * factors[r * k + x];
            }
            for (unsigned r = 0; r < 4; ++r) std::memcpy(at + (size_t)r * n, &sums[r], sizeof(Vector));
        }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void multiply_wide(unsigned m, unsigned n, unsigned k, const double* a, const double* b, double* d) {
    multiply_blocks<Eight>(m, n, k, a, b, d);
}

// __builtin_cpu_supports reads a table of the compiler's library that zig before 0.16 cannot link into a library.
bool has_avx2() {
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return false;  // the system saves wide registers
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & 6) == 6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 5 & 1);
}
const bool wide = has_avx2();
#endif

}  // namespace

void gather(Kind kind, unsigned rows, unsigned k, const void* const lanes[32], uint32_t* codes, unsigned down, unsigned along) {
    switch (kind_bits(kind)) {
        case 4: return gather_bits<4>(rows, k, lanes, codes, down, along);
        case 8: return gather_bits<8>(rows, k, lanes, codes, down, along);
        case 16: return gather_bits<16>(rows, k, lanes, codes, down, along);
        default: return gather_bits<32>(rows, k, lanes, codes, down, along);
    }
}

void multiply(unsigned m, unsigned n, unsigned k, const double* a, const double* b, double* d) {
#if defined(__x86_64__)
    if (wide) return multiply_wide(m, n, k, a, b, d);
#endif
    multiply_blocks<Eight>(m, n, k, a, b, d);
}

void multiply(unsigned m, unsigned n, unsigned k, const int32_t* a, const int32_t* b, int32_t* d) {
    // Unsigned numbers wrap.
    multiply_blocks<EightWords>(m, n, k, (const uint32_t*)a, (const uint32_t*)b, (uint32_t*)d);
}

void mma_warp(const MmaAtom& t, void* const d[32], const void* const a[32], const void* const b[32], const Sparsity* sparse) {
    if (t.c == kind_f64) return doubles(t, d, a, b);
    if (t.c == kind_s32)
        return product<int32_t, int32_t>(t, sparse, d, a, b, integers_of, [](int32_t x) { return x; }, [](int32_t x) { return x; });
    if (t.c == kind_f16)
        return product<double, uint16_t>(
            t, sparse, d, a, b, numbers_of, [](uint16_t x) { return (double)number_of(kind_f16, x); },
            [](double x) { return (uint16_t)code_of(kind_f16, x); });
    product<double, float>(t, sparse, d, a, b, numbers_of, [](float x) { return (double)x; }, [](double x) { return narrow(x); });
}

void mma_quads(bool a_columns, bool b_columns, Kind c, void* const d[32], const void* const a[32], const void* const b[32]) {
    const auto half = [](const void* registers, unsigned i) { return (double)number_of(kind_f16, static_cast<const uint16_t*>(registers)[i]); };
    for (unsigned pair = 0; pair < 4; ++pair) {
        // The eight lanes of two quads: the second four are 16 lanes on.
        const auto lane = [&](unsigned i) { return pair * 4 + i % 4 + i / 4 * 16; };
        for (unsigned i = 0; i < 8; ++i)
            for (unsigned j = 0; j < 8; ++j) {
                double sum = 0;
                for (unsigned k = 0; k < 4; ++k) {
                    const double x = a_columns ? half(a[lane(i / 4 * 4 + k)], i % 4) : half(a[lane(i)], k);
                    const double y = b_columns ? half(b[lane(j)], k) : half(b[lane(j / 4 * 4 + k)], j % 4);
                    sum += x * y;
                }
                if (c == kind_f16) {
                    uint16_t& to = static_cast<uint16_t*>(d[lane(i)])[j];
                    to = (uint16_t)code_of(kind_f16, number_of(kind_f16, to) + sum);
                } else {
                    float& to = static_cast<float*>(d[lane(i / 4 * 4 + i % 2 + j / 2 % 2 * 2)])[j % 2 + i / 2 % 2 * 2 + j / 4 * 4];
                    to = narrow(to + sum);
                }
            }
    }
}

}  // namespace tl_emu
