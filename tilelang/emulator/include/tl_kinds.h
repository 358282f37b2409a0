// Number formats that the instructions name, as the headers of kernels pass them to the runtime.
#ifndef TL_KINDS_H
#define TL_KINDS_H

namespace tl_emu {

enum Kind : unsigned {
    kind_f16, kind_bf16, kind_tf32, kind_f32, kind_f64,
    kind_e4m3, kind_e5m2, kind_e2m3, kind_e3m2, kind_e2m1, kind_e8m0, kind_e4m3fnuz, kind_e5m2fnuz,
    kind_s4, kind_u4, kind_s8, kind_u8, kind_s16, kind_u16, kind_s32, kind_u32, kind_s64, kind_u64,
};

// Bits of an element in memory (fp6 and fp4 in a byte of their own are named by the instruction).
constexpr unsigned kind_bits(Kind kind) {
    switch (kind) {
        case kind_s4: case kind_u4: case kind_e2m1: return 4;
        case kind_e2m3: case kind_e3m2: return 6;
        case kind_e4m3: case kind_e5m2: case kind_e8m0: case kind_e4m3fnuz: case kind_e5m2fnuz: case kind_s8: case kind_u8: return 8;
        case kind_f16: case kind_bf16: case kind_s16: case kind_u16: return 16;
        case kind_tf32: case kind_f32: case kind_s32: case kind_u32: return 32;
        default: return 64;
    }
}
constexpr bool kind_is_integer(Kind kind) { return kind >= kind_s4; }
constexpr bool kind_is_signed(Kind kind) { return kind_is_integer(kind) && (kind - kind_s4) % 2 == 0; }

}  // namespace tl_emu
#endif
