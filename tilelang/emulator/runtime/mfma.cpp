// Matrix instructions of AMD waves: MFMA of 64 lanes (gfx90a, gfx942, gfx950) and WMMA of 32 (gfx11, gfx12). Which
// element a lane's register holds is written out from the manuals: "AMD Instinct MI300 ISA", chapter 7, and AMD's
// matrix instruction calculator; "RDNA3 ISA", 7.9, "RDNA4 ISA", 7.12.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "mma.h"
#include "state.h"

namespace {

using namespace tl_emu;

enum class Machine : unsigned { mfma, gfx11, gfx12 };

// One instruction: `blocks` products at once, each m x n x k; of 16-bit sums on gfx11 the half of a register.
struct Instruction {
    Machine machine;
    unsigned m, n, k, blocks;
    Kind a, b, c;
    unsigned half;
};

struct Lane {
    Instruction what;
    void* d;
    const void *a, *b;
    const void* pc;
};

struct Place {
    unsigned block, row, column;
};

// -- where elements are --------------------------------------------------------------------------------------------
// Elements of A (B) that a lane holds.
unsigned held(const Instruction& t) {
    if (t.machine == Machine::gfx11) return t.k;
    return t.m * t.k * t.blocks / (t.machine == Machine::mfma ? 64 : 32);
}

// Element `slot` of a lane's registers of A: row and k (of B: column and k). With one block the lanes of a row share
// its k in runs; with several each group of m lanes has a block of its own. On gfx11 the upper 16 lanes hold what the
// lower ones do; on gfx12 they hold the upper half of k.
Place factor_place(const Instruction& t, unsigned lane, unsigned slot) {
    if (t.machine == Machine::gfx11) return {0, lane % 16, slot};
    const unsigned lanes = t.machine == Machine::mfma ? 64 : 32, groups = lanes / t.m;
    const unsigned group = lane / t.m, sharing = groups / t.blocks;
    return {group / sharing, lane % t.m, group % sharing * held(t) + slot};
}

// Register `slot` of a lane's part of the sum. MFMA: a lane has runs of four rows (one of float64), and the groups of
// lanes have the runs alternately.
Place sum_place(const Instruction& t, unsigned lane, unsigned slot) {
    switch (t.machine) {
        case Machine::gfx11: return {0, 2 * slot + lane / 16, lane % 16};
        case Machine::gfx12: return {0, 8 * (lane / 16) + slot, lane % 16};
        default: break;
    }
    const unsigned groups = 64 / t.n, run = t.c == kind_f64 ? 1 : 4;
    const unsigned row = groups * run * (slot / run) + run * (lane / t.n) + slot % run;
    return {row / t.m, row % t.m, lane % t.n};
}

// -- the product ---------------------------------------------------------------------------------------------------
// Where a lane has register `slot` of the sum; gfx11 keeps a sum of 16 bits in half of a register.
void* sum_at(const Instruction& t, void* d, unsigned slot) {
    const unsigned bytes = kind_bits(t.c) / 8;
    if (t.machine == Machine::gfx11 && bytes == 2) return static_cast<uint16_t*>(d) + 2 * slot + t.half;
    return static_cast<char*>(d) + (size_t)slot * bytes;
}

template <class Visit> void each_sum(const Instruction& t, void** lanes, Visit visit) {
    const unsigned count = t.machine == Machine::mfma ? 64 : 32;
    for (unsigned lane = 0; lane < count; ++lane)
        for (unsigned slot = 0; slot < t.m * t.n * t.blocks / count; ++slot)
            visit(sum_place(t, lane, slot), sum_at(t, static_cast<Lane*>(lanes[lane])->d, slot));
}

// The factor as codes, [block][row][k] or, of B, [block][k][column].
void gather_factor(const Instruction& t, void** lanes, bool second, std::vector<uint32_t>& codes) {
    const Kind kind = second ? t.b : t.a;
    const unsigned count = t.machine == Machine::mfma ? 64 : 32, rows = t.m;
    for (unsigned lane = 0; lane < count; ++lane) {
        const Lane& mine = *static_cast<Lane*>(lanes[lane]);
        for (unsigned slot = 0; slot < held(t); ++slot) {
            const Place at = factor_place(t, lane, slot);
            const size_t index = second ? at.column * rows + at.row : at.row * t.k + at.column;
            codes[at.block * rows * t.k + index] = element(second ? mine.b : mine.a, kind_bits(kind), slot);
        }
    }
}

// gfx11 reads both halves of the wave, which have to agree.
void check_doubled(const Instruction& t, void** lanes) {
    for (unsigned lane = 16; lane < 32; ++lane) {
        const auto &mine = *static_cast<Lane*>(lanes[lane]), &other = *static_cast<Lane*>(lanes[lane - 16]);
        const bool equal = std::memcmp(mine.a, other.a, held(t) * kind_bits(t.a) / 8) == 0 &&
                           std::memcmp(mine.b, other.b, held(t) * kind_bits(t.b) / 8) == 0;
        if (equal) continue;
        char text[160];
        snprintf(text, sizeof text, "lanes %u and %u of a WMMA instruction do not hold the same factors", lane - 16, lane);
        finding_by(current()->warp->lane(lane), TL_EMU_OTHER, TL_EMU_REGISTERS, mine.pc, nullptr, TL_EMU_NONE, nullptr, nullptr,
                   0, text);
        return;
    }
}

template <class Number, class Load, class In, class Out>
void product(const Instruction& t, void** lanes, Load load, In in, Out out) {
    const size_t factor = (size_t)t.m * t.k * t.blocks, all = (size_t)t.m * t.n * t.blocks;
    std::vector<uint32_t> codes(factor);
    std::vector<Number> left(factor), right(factor), sum(all);
    gather_factor(t, lanes, false, codes);
    load(t.a, codes.data(), left.data(), factor);
    gather_factor(t, lanes, true, codes);
    load(t.b, codes.data(), right.data(), factor);
    const auto index = [&](const Place& at) { return ((size_t)at.block * t.m + at.row) * t.n + at.column; };
    each_sum(t, lanes, [&](const Place& at, void* p) { sum[index(at)] = in(p); });
    for (unsigned block = 0; block < t.blocks; ++block) {
        const Number *a = &left[block * t.m * t.k], *b = &right[block * t.n * t.k];
        Number* d = &sum[block * t.m * t.n];
        if (t.n % 8 == 0) {
            multiply(t.m, t.n, t.k, a, b, d);
            continue;
        }
        for (unsigned i = 0; i < t.m; ++i)
            for (unsigned j = 0; j < t.n; ++j)
                for (unsigned x = 0; x < t.k; ++x) d[i * t.n + j] += a[i * t.k + x] * b[x * t.n + j];
    }
    each_sum(t, lanes, [&](const Place& at, void* p) { out(p, sum[index(at)]); });
}

// float64: fused multiply-adds in the order of k.
void doubles(const Instruction& t, void** lanes) {
    double a[16][4], b[4][16];
    for (unsigned lane = 0; lane < 64; ++lane) {
        const Lane& mine = *static_cast<Lane*>(lanes[lane]);
        const Place at = factor_place(t, lane, 0);
        a[at.row][at.column] = *static_cast<const double*>(mine.a);
        b[at.column][at.row] = *static_cast<const double*>(mine.b);
    }
    each_sum(t, lanes, [&](const Place& at, void* p) {
        double& sum = *static_cast<double*>(p);
        for (unsigned k = 0; k < t.k; ++k) sum = std::fma(a[at.row][k], b[k][at.column], sum);
    });
}

void multiply_wave(void** lanes, LaneMask came) {
    const unsigned count = current()->gang->warp_size;
    const auto& first = *static_cast<Lane*>(lanes[__builtin_ctzll(came)]);
    const Instruction& t = first.what;
    if (came != ~LaneMask{0} >> (most_lanes - count)) {
        finding_by(current()->warp->lane((uint32_t)__builtin_ctzll(came)), TL_EMU_WARP_DIVERGENCE, TL_EMU_NO_SPACE, first.pc,
                   nullptr, TL_EMU_NONE, nullptr, nullptr, 0, "a matrix instruction needs all lanes of the wave");
        stop();
    }
    if (t.machine == Machine::gfx11) check_doubled(t, lanes);
    if (t.c == kind_f64) return doubles(t, lanes);
    if (t.c == kind_s32)
        return product<int32_t>(
            t, lanes, integers_of, [](void* p) { return *static_cast<int32_t*>(p); },
            [](void* p, int32_t x) { *static_cast<int32_t*>(p) = x; });
    if (t.c == kind_f32)
        return product<double>(
            t, lanes, numbers_of, [](void* p) { return (double)*static_cast<float*>(p); },
            [](void* p, double x) { *static_cast<float*>(p) = narrow(x); });
    product<double>(
        t, lanes, numbers_of, [&](void* p) { return (double)number_of(t.c, *static_cast<uint16_t*>(p)); },
        [&](void* p, double x) { *static_cast<uint16_t*>(p) = (uint16_t)code_of(t.c, x); });
}

}  // namespace

extern "C" {

// machine: 0 MFMA, 1 WMMA of gfx11, 2 of gfx12. shape: m, n, k and the count of blocks in bytes from the lowest;
// kinds: those of a, b and d. half: of 16-bit sums on gfx11 the half of a register.
void tl_emu_wave_product(unsigned machine, unsigned shape, unsigned kinds, unsigned half, void* d, const void* a, const void* b) {
    const Instruction what{Machine(machine), shape & 255, shape >> 8 & 255, shape >> 16 & 255, shape >> 24,
                           Kind(kinds & 255), Kind(kinds >> 8 & 255), Kind(kinds >> 16), half};
    if (current()->gang->warp_size != (what.machine == Machine::mfma ? 64u : 32u)) {
        finding(TL_EMU_OTHER, TL_EMU_NO_SPACE, TL_EMU_PC(), nullptr, 0, "the wave has %u lanes, and the instruction needs %u",
                current()->gang->warp_size, what.machine == Machine::mfma ? 64u : 32u);
        stop();
    }
    Lane mine{what, d, a, b, TL_EMU_PC()};
    const Multiplying unit;
    in_step(what.machine == Machine::mfma ? "an MFMA instruction" : "a WMMA instruction", &mine, multiply_wave, mine.pc);
}

}  // extern "C"
