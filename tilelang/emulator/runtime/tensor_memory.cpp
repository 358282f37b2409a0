// Descriptors of tcgen05.mma, its products, and the fragments of tensor memory in registers.
#include "tensor_memory.h"

namespace tl_emu {

const char* decode_instruction(char kind, uint32_t bits, TensorInstruction& out) {
    constexpr Kind small[] = {kind_e4m3, kind_e5m2, kind_f32, kind_e2m3, kind_e3m2, kind_e2m1, kind_f32, kind_f32};
    const unsigned a = bits >> 7 & 7, b = bits >> 10 & 7, c = bits >> 4 & 3;
    switch (kind) {
        case 'h':
            if (a > 1 || b > 1) return "factors of kind f16 are float16 or bfloat16";
            out.a = a ? kind_bf16 : kind_f16;
            out.b = b ? kind_bf16 : kind_f16;
            out.k = 16;
            break;
        case 't':
            if (a != 2 || b != 2) return "factors of kind tf32 are tf32";
            out.a = out.b = kind_tf32;
            out.k = 8;
            break;
        case '8':
            out.a = small[a];
            out.b = small[b];
            if (out.a == kind_f32 || out.b == kind_f32) return "unknown format of a factor";
            out.k = 32;
            break;
        default:
            if (a > 1 || b > 1) return "factors of kind i8 are of 8 bits";
            out.a = a ? kind_s8 : kind_u8;
            out.b = b ? kind_s8 : kind_u8;
            out.k = 32;
    }
    if (kind == 'i' ? c != 2 : c > 1 || (kind == 't' && c != 1)) return "this kind has no sum of that format";
    out.c = c == 2 ? kind_s32 : c == 1 ? kind_f32 : kind_f16;
    out.n = (bits >> 17 & 63) * 8;
    out.m = (bits >> 24 & 31) * 16;
    out.flags = (bits >> 15 & 1) * a_is_mn_major | (bits >> 16 & 1) * b_is_mn_major | (bits >> 13 & 1) * negate_a |
                (bits >> 14 & 1) * negate_b;
    if (bits >> 2 & 1) return "products of sparse factors are not emulated";
    if (out.m != 64 && out.m != 128) return "m is 64 or 128 for one block";
    if (out.n < 8 || out.n > 256 || out.n % (out.m == 128 ? 16 : 8)) return "n is a multiple of 8 (of 16 for m = 128) up to 256";
    return nullptr;
}

namespace {

constexpr unsigned most_rows = 128, most_n = 256, most_depth = 32;

struct Tiles {
    uint32_t codes[most_depth * most_n];
    double a[most_rows * most_depth], b[most_depth * most_n], d[most_rows * most_n];
};
Tiles& tiles() {
    static thread_local std::unique_ptr<Tiles> kept;
    if (!kept) kept = std::make_unique<Tiles>();
    return *kept;
}

uint32_t lane_of(const TensorInstruction& t, unsigned row) { return t.m == 128 ? row : row / 16 * 32 + row % 16; }

// Formats of less than eight bits are stored in groups of 16 elements, each in 16 bytes of its own.
void read_factor(const SharedWindow& shared, const MatrixPlace& place, Kind kind, unsigned lines, unsigned k,
                 uint32_t* codes, unsigned down, unsigned step) {
    const unsigned bits = kind_bits(kind);
    if (bits >= 8) return read_matrix(shared, place, kind, lines, k, codes, down, step);
    const unsigned count = place.mn_major ? k : lines, length = place.mn_major ? lines : k;
    if (place.mn_major) std::swap(down, step);
    for (unsigned line = 0; line < count; ++line)
        for (unsigned along = 0; along < length; along += 16) {
            const uint32_t address = place.address(line, along);
            uint8_t chunk[16] = {};
            if (address + 16 <= shared.bytes) std::memcpy(chunk, shared.base + address, 16);
            for (unsigned e = 0; e < 16; ++e) {
                const unsigned bit = e * bits;
                const unsigned word = chunk[bit / 8] | chunk[bit / 8 + 1] << 8;
                codes[line * down + (along + e) * step] = word >> bit % 8 & ((1u << bits) - 1);
            }
        }
}

void load_numbers(Kind kind, const uint32_t* codes, double* out, size_t count, bool negate) {
    if (kind_is_integer(kind)) {
        for (size_t i = 0; i < count; ++i) out[i] = kind_is_signed(kind) ? (int8_t)codes[i] : (uint8_t)codes[i];
    } else {
        numbers_of(kind, codes, out, count);
    }
    if (negate) for (size_t i = 0; i < count; ++i) out[i] = -out[i];
}

double number_in(Kind kind, uint32_t word) {
    return kind == kind_s32 ? (double)(int32_t)word : number_of(kind, kind == kind_f16 ? word & 0xffff : word);
}

uint32_t word_of(Kind kind, double x) {
    if (kind == kind_s32) return (uint32_t)(int64_t)x;
    return code_of(kind, x);
}

}  // namespace

void TensorProduct::run(TensorCells& cells) const {
    const TensorInstruction& t = instruction;
    Tiles& s = tiles();
    if (a_in_tensor_memory) {
        const unsigned bits = kind_bits(t.a) < 8 ? 8 : kind_bits(t.a), per = 32 / bits;
        for (unsigned i = 0; i < t.m; ++i)
            for (unsigned k = 0; k < t.k; ++k) {
                const uint32_t word = cells.words[(a >> 16) + lane_of(t, i)][((a & 0xffff) + k / per) % tmem_columns];
                s.codes[i * t.k + k] = word >> k % per * bits & (bits == 32 ? ~0u : (1u << bits) - 1);
            }
    } else {
        read_factor(shared, place_a, t.a, t.m, t.k, s.codes, t.k, 1);
    }
    load_numbers(t.a, s.codes, s.a, t.m * t.k, t.flags & negate_a);
    read_factor(shared, place_b, t.b, t.n, t.k, s.codes, 1, t.n);
    load_numbers(t.b, s.codes, s.b, t.k * t.n, t.flags & negate_b);
    const uint32_t first = d & 0xffff;
    for (unsigned i = 0; i < t.m; ++i)
        for (unsigned j = 0; j < t.n; ++j)
            s.d[i * t.n + j] = accumulate ? number_in(t.c, cells.words[lane_of(t, i)][(first + j) % tmem_columns]) : 0;
    multiply(t.m, t.n, t.k, s.a, s.b, s.d);
    for (unsigned i = 0; i < t.m; ++i) {
        const uint32_t lane = lane_of(t, i);
        if (disabled[lane / 32] >> lane % 32 & 1) continue;
        for (unsigned j = 0; j < t.n; ++j) cells.words[lane][(first + j) % tmem_columns] = word_of(t.c, s.d[i * t.n + j]);
    }
}

TensorPlace fragment_place(unsigned rows, unsigned bits, unsigned lane, unsigned slot) {
    if (rows == 32) return {lane, slot};
    switch (bits) {
        case 64: return {lane / 4 + lane % 2 * 8, slot * 2 + lane / 2 % 2};
        case 128: return {lane / 4 + slot % 2 * 8, slot / 2 * 4 + lane % 4};
        default: return {lane / 4 + slot / 2 % 2 * 8, slot / 4 * 8 + lane % 4 * 2 + slot % 2};
    }
}

unsigned fragment_registers(unsigned rows, unsigned bits, unsigned repeats) { return rows * bits / 32 * repeats / 32; }

}  // namespace tl_emu
