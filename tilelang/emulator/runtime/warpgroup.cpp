// Descriptors of matrices in shared memory, and wgmma on them.
#include "warpgroup.h"

#include <algorithm>
#include <memory>

#include "tensor_map.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")  // vectors, which clang makes at every level
#endif

namespace tl_emu {

uint32_t MatrixPlace::address(uint32_t line, uint32_t along) const {
    uint32_t at = start + line % 8 * span + along % span;
    if (span == 16 && mn_major) at += line / 8 * leading + along / 16 * stride;
    else at += line / 8 * stride + (mn_major || span == 16 ? along / span * leading : along / span * span);
    return at ^ swizzle_bits(swizzle, at - (phase << 7));
}

namespace {

MatrixPlace common_fields(uint64_t descriptor, bool mn_major) {
    MatrixPlace place = {};
    place.start = (descriptor & 0x3fff) << 4;
    place.leading = (descriptor >> 16 & 0x3fff) << 4;
    place.stride = (descriptor >> 32 & 0x3fff) << 4;
    place.phase = descriptor >> 49 & 7;
    place.mn_major = mn_major;
    return place;
}

void set_swizzle(MatrixPlace& place, uint8_t swizzle) {
    place.swizzle = swizzle;
    place.span = swizzle_span(swizzle);
}

}  // namespace

bool decode_wgmma(uint64_t descriptor, bool mn_major, MatrixPlace& place) {
    constexpr uint8_t swizzles[] = {swizzle_none, swizzle_128, swizzle_64, swizzle_32};
    constexpr uint64_t unused = 3ull << 14 | 3ull << 30 | 7ull << 46 | 0x3ffull << 52;
    place = common_fields(descriptor, mn_major);
    set_swizzle(place, swizzles[descriptor >> 62]);
    return (descriptor & unused) == 0;
}

bool decode_tcgen05(uint64_t descriptor, bool mn_major, MatrixPlace& place) {
    constexpr uint64_t unused = 3ull << 14 | 3ull << 30 | 0x1ffull << 52;
    place = common_fields(descriptor, mn_major);
    switch (descriptor >> 61) {
        case 0: set_swizzle(place, swizzle_none); break;
        case 1: set_swizzle(place, swizzle_128_atom_32); break;
        case 2: set_swizzle(place, swizzle_128); break;
        case 4: set_swizzle(place, swizzle_64); break;
        case 6: set_swizzle(place, swizzle_32); break;
        default: set_swizzle(place, swizzle_none); return false;
    }
    return (descriptor & unused) == 0 && (descriptor >> 46 & 7) == 1;  // the version of sm_100
}

namespace {

// Calls visit(line, along, address) for every 16 bytes of an operand.
template <class Visit> void each_chunk(const MatrixPlace& place, Kind kind, unsigned lines, unsigned k, Visit visit) {
    const unsigned bits = kind_bits(kind);
    const unsigned count = place.mn_major ? k : lines, bytes = (place.mn_major ? lines : k) * bits / 8;
    for (unsigned line = 0; line < count; ++line)
        for (unsigned along = 0; along < bytes; along += 16) visit(line, along, place.address(line, along));
}

}  // namespace

void read_matrix(const SharedWindow& shared, const MatrixPlace& place, Kind kind, unsigned lines, unsigned k,
                 uint32_t* codes, unsigned down, unsigned step) {
    const unsigned bits = kind_bits(kind), per = 128 / bits;
    if (place.mn_major) std::swap(down, step);
    each_chunk(place, kind, lines, k, [&](unsigned line, unsigned along, uint32_t address) {
        uint8_t chunk[16] = {};
        if (address + 16 <= shared.bytes) std::memcpy(chunk, shared.base + address, 16);
        uint32_t* out = codes + line * down + along * 8 / bits * step;
        for (unsigned e = 0; e < per; ++e) out[e * step] = element(chunk, bits, e);
    });
}

std::vector<std::pair<uint32_t, uint32_t>> matrix_ranges(const MatrixPlace& place, Kind kind, unsigned lines, unsigned k) {
    std::vector<uint32_t> chunks;
    each_chunk(place, kind, lines, k, [&](unsigned, unsigned, uint32_t address) { chunks.push_back(address); });
    std::sort(chunks.begin(), chunks.end());
    std::vector<std::pair<uint32_t, uint32_t>> ranges;
    for (const uint32_t at : chunks) {
        if (!ranges.empty() && at < ranges.back().first + ranges.back().second) continue;
        if (!ranges.empty() && at == ranges.back().first + ranges.back().second) ranges.back().second += 16;
        else ranges.push_back({at, 16});
    }
    return ranges;
}

namespace {

constexpr unsigned rows = 64, most_columns = 256, most_k = 32;

// One for each worker: a product does not give way to other fibers, and stacks of fibers are small.
template <class Number> struct Scratch {
    uint32_t codes[most_k * most_columns];
    Number a[rows * most_k], b[most_k * most_columns], d[rows * most_columns];
};
template <class Number> Scratch<Number>& scratch() {
    static thread_local std::unique_ptr<Scratch<Number>> kept;
    if (!kept) kept = std::make_unique<Scratch<Number>>();
    return *kept;
}

void read_a(const WarpgroupProduct& p, uint32_t* codes) {
    if (!(p.flags & a_in_registers)) return read_matrix(p.shared, p.place_a, p.a, rows, p.k, codes, p.k, 1);
    for (unsigned warp = 0; warp < 4; ++warp) gather(p.a, 16, p.k, p.registers_a + 32 * warp, codes + 16 * warp * p.k, p.k, 1);
}

// Calls visit(place in d, register) for the sums of all threads: two neighbours, and two of the row eight below.
template <class Element, class Visit> void each_sum(const WarpgroupProduct& p, Visit visit) {
    for (unsigned thread = 0; thread < 128; ++thread) {
        auto* registers = static_cast<Element*>(p.d[thread]);
        unsigned at = (thread / 32 * 16 + thread % 32 / 4) * p.n + thread % 4 * 2;
        for (unsigned j = 0; j < p.n; j += 8, at += 8, registers += 4) {
            visit(at, registers[0]);
            visit(at + 1, registers[1]);
            visit(at + 8 * p.n, registers[2]);
            visit(at + 8 * p.n + 1, registers[3]);
        }
    }
}

template <class Number, class Element, class Load, class In, class Out>
void product(const WarpgroupProduct& p, Load load, In in, Out out) {
    Scratch<Number>& s = scratch<Number>();
    read_a(p, s.codes);
    load(p.a, s.codes, s.a, rows * p.k);
    read_matrix(p.shared, p.place_b, p.b, p.n, p.k, s.codes, 1, p.n);
    load(p.b, s.codes, s.b, p.k * p.n);
    if (p.flags & negate_a) for (unsigned i = 0; i < rows * p.k; ++i) s.a[i] = -s.a[i];
    if (p.flags & negate_b) for (unsigned i = 0; i < p.k * p.n; ++i) s.b[i] = -s.b[i];
    if (p.accumulate) each_sum<const Element>(p, [&](unsigned at, Element held) { s.d[at] = in(held); });
    else std::fill_n(s.d, rows * p.n, Number(0));
    multiply(rows, p.n, p.k, s.a, s.b, s.d);
    each_sum<Element>(p, [&](unsigned at, Element& held) { held = out(s.d[at]); });
}

}  // namespace

void WarpgroupProduct::run() const {
    if (c == kind_s32)
        return product<int32_t, int32_t>(*this, integers_of, [](int32_t x) { return x; }, [](int32_t x) { return x; });
    if (c == kind_f16)
        return product<double, uint16_t>(
            *this, numbers_of, [](uint16_t x) { return (double)number_of(kind_f16, x); },
            [](double x) { return (uint16_t)code_of(kind_f16, x); });
    product<double, float>(*this, numbers_of, [](float x) { return (double)x; }, [](double x) { return narrow(x); });
}

}  // namespace tl_emu
