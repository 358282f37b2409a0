// Asynchronous products of a warpgroup (sm_90a). There are thousands of these instructions, so that a kernel names
// those it uses, each once: TL_WGMMA(128, 16, f16, f16, f32, 64) makes tl_wgmma_m64n128k16_f16_f16_f32_ss and _rs. The
// last number is how many 32-bit registers of the accumulator a thread holds.
#ifndef TL_WGMMA_H
#define TL_WGMMA_H
#include "tl_types.h"

// A compiler barrier for accesses of N registers: the compiler does not know that products are asynchronous.
template <int N> TL_INLINE void tl_wgmma_touch_f32(void* regs) {
    float* d = (float*)regs;
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int N> TL_INLINE void tl_wgmma_touch_b32(void* regs) {
    uint32_t* d = (uint32_t*)regs;
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

// Where an operand is in shared memory. Distances are in units of 16 bytes; layout: 0 without swizzle, 1, 2 and 3
// swizzled by 128, 64 and 32 bytes.
TL_INLINE void tl_wgmma_descriptor(uint64_t* d, const void* p, int layout, int leading, int stride) {
    uint32_t at = tl_shared_address(p);
#ifdef TL_SAVE_REGISTERS
    // Computed for each product. Otherwise the compiler hoists descriptors out of loops, two registers for each.
    asm volatile("" : "+r"(at));
#endif
    *d = (uint64_t)((at & 0x3ffffu) >> 4) | (uint64_t)(leading & 0x3fff) << 16 |
         (uint64_t)(stride & 0x3fff) << 32 | (uint64_t)layout << 62;
}
template <int LAYOUT, int LEADING, int STRIDE> TL_INLINE uint64_t tl_wgmma_operand(const void* p) {
    uint64_t d;
    tl_wgmma_descriptor(&d, p, LAYOUT, LEADING, STRIDE);
    return d;
}
TL_INLINE void tl_descriptor_add(uint64_t* d, int bytes) { *d += (uint64_t)(int64_t)(bytes >> 4); }

// -- lists of R registers: their places in the text, the operands, and the numbers of the operands behind them ---
#define TL_P2 "%0, %1"
#define TL_P4 TL_P2 ", %2, %3"
#define TL_P6 TL_P4 ", %4, %5"
#define TL_P8 TL_P6 ", %6, %7"
#define TL_P10 TL_P8 ", %8, %9"
#define TL_P12 TL_P10 ", %10, %11"
#define TL_P14 TL_P12 ", %12, %13"
#define TL_P16 TL_P14 ", %14, %15"
#define TL_P18 TL_P16 ", %16, %17"
#define TL_P20 TL_P18 ", %18, %19"
#define TL_P22 TL_P20 ", %20, %21"
#define TL_P24 TL_P22 ", %22, %23"
#define TL_P26 TL_P24 ", %24, %25"
#define TL_P28 TL_P26 ", %26, %27"
#define TL_P30 TL_P28 ", %28, %29"
#define TL_P32 TL_P30 ", %30, %31"
#define TL_P34 TL_P32 ", %32, %33"
#define TL_P36 TL_P34 ", %34, %35"
#define TL_P38 TL_P36 ", %36, %37"
#define TL_P40 TL_P38 ", %38, %39"
#define TL_P42 TL_P40 ", %40, %41"
#define TL_P44 TL_P42 ", %42, %43"
#define TL_P46 TL_P44 ", %44, %45"
#define TL_P48 TL_P46 ", %46, %47"
#define TL_P50 TL_P48 ", %48, %49"
#define TL_P52 TL_P50 ", %50, %51"
#define TL_P54 TL_P52 ", %52, %53"
#define TL_P56 TL_P54 ", %54, %55"
#define TL_P58 TL_P56 ", %56, %57"
#define TL_P60 TL_P58 ", %58, %59"
#define TL_P62 TL_P60 ", %60, %61"
#define TL_P64 TL_P62 ", %62, %63"
#define TL_P68 TL_P64 ", %64, %65, %66, %67"
#define TL_P72 TL_P68 ", %68, %69, %70, %71"
#define TL_P76 TL_P72 ", %72, %73, %74, %75"
#define TL_P80 TL_P76 ", %76, %77, %78, %79"
#define TL_P84 TL_P80 ", %80, %81, %82, %83"
#define TL_P88 TL_P84 ", %84, %85, %86, %87"
#define TL_P92 TL_P88 ", %88, %89, %90, %91"
#define TL_P96 TL_P92 ", %92, %93, %94, %95"
#define TL_P100 TL_P96 ", %96, %97, %98, %99"
#define TL_P104 TL_P100 ", %100, %101, %102, %103"
#define TL_P108 TL_P104 ", %104, %105, %106, %107"
#define TL_P112 TL_P108 ", %108, %109, %110, %111"
#define TL_P116 TL_P112 ", %112, %113, %114, %115"
#define TL_P120 TL_P116 ", %116, %117, %118, %119"
#define TL_P124 TL_P120 ", %120, %121, %122, %123"
#define TL_P128 TL_P124 ", %124, %125, %126, %127"
#define TL_D2(C) "+" C(d[0]), "+" C(d[1])
#define TL_D4(C) TL_D2(C), "+" C(d[2]), "+" C(d[3])
#define TL_D6(C) TL_D4(C), "+" C(d[4]), "+" C(d[5])
#define TL_D8(C) TL_D6(C), "+" C(d[6]), "+" C(d[7])
#define TL_D10(C) TL_D8(C), "+" C(d[8]), "+" C(d[9])
#define TL_D12(C) TL_D10(C), "+" C(d[10]), "+" C(d[11])
#define TL_D14(C) TL_D12(C), "+" C(d[12]), "+" C(d[13])
#define TL_D16(C) TL_D14(C), "+" C(d[14]), "+" C(d[15])
#define TL_D18(C) TL_D16(C), "+" C(d[16]), "+" C(d[17])
#define TL_D20(C) TL_D18(C), "+" C(d[18]), "+" C(d[19])
#define TL_D22(C) TL_D20(C), "+" C(d[20]), "+" C(d[21])
#define TL_D24(C) TL_D22(C), "+" C(d[22]), "+" C(d[23])
#define TL_D26(C) TL_D24(C), "+" C(d[24]), "+" C(d[25])
#define TL_D28(C) TL_D26(C), "+" C(d[26]), "+" C(d[27])
#define TL_D30(C) TL_D28(C), "+" C(d[28]), "+" C(d[29])
#define TL_D32(C) TL_D30(C), "+" C(d[30]), "+" C(d[31])
#define TL_D34(C) TL_D32(C), "+" C(d[32]), "+" C(d[33])
#define TL_D36(C) TL_D34(C), "+" C(d[34]), "+" C(d[35])
#define TL_D38(C) TL_D36(C), "+" C(d[36]), "+" C(d[37])
#define TL_D40(C) TL_D38(C), "+" C(d[38]), "+" C(d[39])
#define TL_D42(C) TL_D40(C), "+" C(d[40]), "+" C(d[41])
#define TL_D44(C) TL_D42(C), "+" C(d[42]), "+" C(d[43])
#define TL_D46(C) TL_D44(C), "+" C(d[44]), "+" C(d[45])
#define TL_D48(C) TL_D46(C), "+" C(d[46]), "+" C(d[47])
#define TL_D50(C) TL_D48(C), "+" C(d[48]), "+" C(d[49])
#define TL_D52(C) TL_D50(C), "+" C(d[50]), "+" C(d[51])
#define TL_D54(C) TL_D52(C), "+" C(d[52]), "+" C(d[53])
#define TL_D56(C) TL_D54(C), "+" C(d[54]), "+" C(d[55])
#define TL_D58(C) TL_D56(C), "+" C(d[56]), "+" C(d[57])
#define TL_D60(C) TL_D58(C), "+" C(d[58]), "+" C(d[59])
#define TL_D62(C) TL_D60(C), "+" C(d[60]), "+" C(d[61])
#define TL_D64(C) TL_D62(C), "+" C(d[62]), "+" C(d[63])
#define TL_D68(C) TL_D64(C), "+" C(d[64]), "+" C(d[65]), "+" C(d[66]), "+" C(d[67])
#define TL_D72(C) TL_D68(C), "+" C(d[68]), "+" C(d[69]), "+" C(d[70]), "+" C(d[71])
#define TL_D76(C) TL_D72(C), "+" C(d[72]), "+" C(d[73]), "+" C(d[74]), "+" C(d[75])
#define TL_D80(C) TL_D76(C), "+" C(d[76]), "+" C(d[77]), "+" C(d[78]), "+" C(d[79])
#define TL_D84(C) TL_D80(C), "+" C(d[80]), "+" C(d[81]), "+" C(d[82]), "+" C(d[83])
#define TL_D88(C) TL_D84(C), "+" C(d[84]), "+" C(d[85]), "+" C(d[86]), "+" C(d[87])
#define TL_D92(C) TL_D88(C), "+" C(d[88]), "+" C(d[89]), "+" C(d[90]), "+" C(d[91])
#define TL_D96(C) TL_D92(C), "+" C(d[92]), "+" C(d[93]), "+" C(d[94]), "+" C(d[95])
#define TL_D100(C) TL_D96(C), "+" C(d[96]), "+" C(d[97]), "+" C(d[98]), "+" C(d[99])
#define TL_D104(C) TL_D100(C), "+" C(d[100]), "+" C(d[101]), "+" C(d[102]), "+" C(d[103])
#define TL_D108(C) TL_D104(C), "+" C(d[104]), "+" C(d[105]), "+" C(d[106]), "+" C(d[107])
#define TL_D112(C) TL_D108(C), "+" C(d[108]), "+" C(d[109]), "+" C(d[110]), "+" C(d[111])
#define TL_D116(C) TL_D112(C), "+" C(d[112]), "+" C(d[113]), "+" C(d[114]), "+" C(d[115])
#define TL_D120(C) TL_D116(C), "+" C(d[116]), "+" C(d[117]), "+" C(d[118]), "+" C(d[119])
#define TL_D124(C) TL_D120(C), "+" C(d[120]), "+" C(d[121]), "+" C(d[122]), "+" C(d[123])
#define TL_D128(C) TL_D124(C), "+" C(d[124]), "+" C(d[125]), "+" C(d[126]), "+" C(d[127])
#define TL_I2 "%2", "%3", "%4", "%5", "%6", "%7", "%8", "%9", "%10"
#define TL_I4 "%4", "%5", "%6", "%7", "%8", "%9", "%10", "%11", "%12"
#define TL_I6 "%6", "%7", "%8", "%9", "%10", "%11", "%12", "%13", "%14"
#define TL_I8 "%8", "%9", "%10", "%11", "%12", "%13", "%14", "%15", "%16"
#define TL_I10 "%10", "%11", "%12", "%13", "%14", "%15", "%16", "%17", "%18"
#define TL_I12 "%12", "%13", "%14", "%15", "%16", "%17", "%18", "%19", "%20"
#define TL_I14 "%14", "%15", "%16", "%17", "%18", "%19", "%20", "%21", "%22"
#define TL_I16 "%16", "%17", "%18", "%19", "%20", "%21", "%22", "%23", "%24"
#define TL_I18 "%18", "%19", "%20", "%21", "%22", "%23", "%24", "%25", "%26"
#define TL_I20 "%20", "%21", "%22", "%23", "%24", "%25", "%26", "%27", "%28"
#define TL_I22 "%22", "%23", "%24", "%25", "%26", "%27", "%28", "%29", "%30"
#define TL_I24 "%24", "%25", "%26", "%27", "%28", "%29", "%30", "%31", "%32"
#define TL_I26 "%26", "%27", "%28", "%29", "%30", "%31", "%32", "%33", "%34"
#define TL_I28 "%28", "%29", "%30", "%31", "%32", "%33", "%34", "%35", "%36"
#define TL_I30 "%30", "%31", "%32", "%33", "%34", "%35", "%36", "%37", "%38"
#define TL_I32 "%32", "%33", "%34", "%35", "%36", "%37", "%38", "%39", "%40"
#define TL_I34 "%34", "%35", "%36", "%37", "%38", "%39", "%40", "%41", "%42"
#define TL_I36 "%36", "%37", "%38", "%39", "%40", "%41", "%42", "%43", "%44"
#define TL_I38 "%38", "%39", "%40", "%41", "%42", "%43", "%44", "%45", "%46"
#define TL_I40 "%40", "%41", "%42", "%43", "%44", "%45", "%46", "%47", "%48"
#define TL_I42 "%42", "%43", "%44", "%45", "%46", "%47", "%48", "%49", "%50"
#define TL_I44 "%44", "%45", "%46", "%47", "%48", "%49", "%50", "%51", "%52"
#define TL_I46 "%46", "%47", "%48", "%49", "%50", "%51", "%52", "%53", "%54"
#define TL_I48 "%48", "%49", "%50", "%51", "%52", "%53", "%54", "%55", "%56"
#define TL_I50 "%50", "%51", "%52", "%53", "%54", "%55", "%56", "%57", "%58"
#define TL_I52 "%52", "%53", "%54", "%55", "%56", "%57", "%58", "%59", "%60"
#define TL_I54 "%54", "%55", "%56", "%57", "%58", "%59", "%60", "%61", "%62"
#define TL_I56 "%56", "%57", "%58", "%59", "%60", "%61", "%62", "%63", "%64"
#define TL_I58 "%58", "%59", "%60", "%61", "%62", "%63", "%64", "%65", "%66"
#define TL_I60 "%60", "%61", "%62", "%63", "%64", "%65", "%66", "%67", "%68"
#define TL_I62 "%62", "%63", "%64", "%65", "%66", "%67", "%68", "%69", "%70"
#define TL_I64 "%64", "%65", "%66", "%67", "%68", "%69", "%70", "%71", "%72"
#define TL_I68 "%68", "%69", "%70", "%71", "%72", "%73", "%74", "%75", "%76"
#define TL_I72 "%72", "%73", "%74", "%75", "%76", "%77", "%78", "%79", "%80"
#define TL_I76 "%76", "%77", "%78", "%79", "%80", "%81", "%82", "%83", "%84"
#define TL_I80 "%80", "%81", "%82", "%83", "%84", "%85", "%86", "%87", "%88"
#define TL_I84 "%84", "%85", "%86", "%87", "%88", "%89", "%90", "%91", "%92"
#define TL_I88 "%88", "%89", "%90", "%91", "%92", "%93", "%94", "%95", "%96"
#define TL_I92 "%92", "%93", "%94", "%95", "%96", "%97", "%98", "%99", "%100"
#define TL_I96 "%96", "%97", "%98", "%99", "%100", "%101", "%102", "%103", "%104"
#define TL_I100 "%100", "%101", "%102", "%103", "%104", "%105", "%106", "%107", "%108"
#define TL_I104 "%104", "%105", "%106", "%107", "%108", "%109", "%110", "%111", "%112"
#define TL_I108 "%108", "%109", "%110", "%111", "%112", "%113", "%114", "%115", "%116"
#define TL_I112 "%112", "%113", "%114", "%115", "%116", "%117", "%118", "%119", "%120"
#define TL_I116 "%116", "%117", "%118", "%119", "%120", "%121", "%122", "%123", "%124"
#define TL_I120 "%120", "%121", "%122", "%123", "%124", "%125", "%126", "%127", "%128"
#define TL_I124 "%124", "%125", "%126", "%127", "%128", "%129", "%130", "%131", "%132"
#define TL_I128 "%128", "%129", "%130", "%131", "%132", "%133", "%134", "%135", "%136"
// What a register of the accumulator is in C and to the assembler.
#define TL_WG_TYPE_f32 float
#define TL_WG_TYPE_f16 uint32_t
#define TL_WG_TYPE_s32 int32_t
#define TL_WG_FORM_f32 "f"
#define TL_WG_FORM_f16 "r"
#define TL_WG_FORM_s32 "r"
// After the operands come signs and, for operands of 16 bits, their major order: 1 is along M or N.
#define TL_WG_half_TAIL_SS(S, U, V, W) ", " S ", " U ", " V ", " W
#define TL_WG_half_MORE_SS , "n"(SA), "n"(SB), "n"(TA), "n"(TB)
#define TL_WG_half_TAIL_RS(S, U, V) ", " S ", " U ", " V
#define TL_WG_half_MORE_RS , "n"(SA), "n"(SB), "n"(TB)
#define TL_WG_real_TAIL_SS(S, U, V, W) ", " S ", " U
#define TL_WG_real_MORE_SS , "n"(SA), "n"(SB)
#define TL_WG_real_TAIL_RS(S, U, V) ", " S ", " U
#define TL_WG_real_MORE_RS , "n"(SA), "n"(SB)
#define TL_WG_whole_TAIL_SS(S, U, V, W) ""
#define TL_WG_whole_MORE_SS
#define TL_WG_whole_TAIL_RS(S, U, V) ""
#define TL_WG_whole_MORE_RS

// -- the instruction: both operands by descriptors, or A in four registers --------------------------------------
#define TL_WG_TEXT(N, K, A, B, C, REGS, X, Y, SCALE, TAIL)                                                            \
    "{\n.reg .pred p;\nsetp.ne.b32 p, " SCALE ", 0;\n"                                                                \
    "wgmma.mma_async.sync.aligned.m64n" #N "k" #K "." #C "." #A "." #B " {" REGS "}, " X ", " Y ", p" TAIL ";\n}"
#define TL_WG_BOTH(KIND, N, K, A, B, C, R, I0, I1, I2, I3, I4, I5, I6, I7, I8)                                        \
    template <int TA, int TB, int SA, int SB>                                                                         \
    TL_INLINE void tl_wgmma_m64n##N##k##K##_##A##_##B##_##C##_ss(void* regs, uint64_t a, uint64_t b, bool accumulate) { \
        TL_WG_TYPE_##C* d = (TL_WG_TYPE_##C*)regs; (void)d;                                                           \
        TL_ASM_90A(TL_WG_TEXT(N, K, A, B, C, TL_P##R, I0, I1, I2, TL_WG_##KIND##_TAIL_SS(I3, I4, I5, I6))           \
                     : TL_D##R(TL_WG_FORM_##C) : "l"(a), "l"(b), "r"((int)accumulate) TL_WG_##KIND##_MORE_SS);        \
    }                                                                                                                 \
    template <int TB, int SA, int SB>                                                                                 \
    TL_INLINE void tl_wgmma_m64n##N##k##K##_##A##_##B##_##C##_rs(void* regs, const void* a, uint64_t b, bool accumulate) { \
        TL_WG_TYPE_##C* d = (TL_WG_TYPE_##C*)regs; (void)d;                                                           \
        const uint32_t* x = (const uint32_t*)a; (void)x;                                                              \
        TL_ASM_90A(TL_WG_TEXT(N, K, A, B, C, TL_P##R, "{" I0 ", " I1 ", " I2 ", " I3 "}", I4, I5,                   \
                                TL_WG_##KIND##_TAIL_RS(I6, I7, I8))                                                   \
                     : TL_D##R(TL_WG_FORM_##C)                                                                        \
                     : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(b), "r"((int)accumulate) TL_WG_##KIND##_MORE_RS); \
    }
#define TL_WG_APPLY(...) TL_WG_BOTH(__VA_ARGS__)
#define TL_WG_KIND_f16 half
#define TL_WG_KIND_bf16 half
#define TL_WG_KIND_tf32 real
#define TL_WG_KIND_e4m3 real
#define TL_WG_KIND_e5m2 real
#define TL_WG_KIND_s8 whole
#define TL_WG_KIND_u8 whole
#define TL_WGMMA(N, K, A, B, C, R) TL_WG_APPLY(TL_WG_KIND_##A, N, K, A, B, C, R, TL_I##R)
#endif
