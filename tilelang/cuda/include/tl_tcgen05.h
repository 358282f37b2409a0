// Tensor memory and its matrix instructions (sm_100a), and work taken from blocks that have not started (sm_100). An
// address in tensor memory is lane << 16 | column.
#ifndef TL_TCGEN05_H
#define TL_TCGEN05_H
#include "tl_types.h"

// Where an operand is in shared memory. Distances are in units of 16 bytes; swizzle: 0 none, 1, 2, 4 and 6 for 128
// bytes in units of 32, 128, 64 and 32 bytes.
TL_INLINE void tl_tcgen05_descriptor(uint64_t* d, const void* p, int leading, int stride, int base, int absolute, int swizzle) {
    *d = (uint64_t)((tl_shared_address(p) & 0x3ffffu) >> 4) | (uint64_t)(leading & 0x3fff) << 16 |
         (uint64_t)(stride & 0x3fff) << 32 | (uint64_t)1 << 46 | (uint64_t)(base & 7) << 49 |
         (uint64_t)(absolute & 1) << 52 | (uint64_t)(swizzle & 7) << 61;
}

// -- columns of tensor memory: one warp allocates and gives back ------------------------------------------------
template <int COLUMNS> TL_INLINE void tl_tmem_alloc(uint32_t* slot) {
    TL_ASM_100A("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(tl_shared_address(slot)), "n"(COLUMNS) : "memory");
}
template <int COLUMNS> TL_INLINE void tl_tmem_free(uint32_t address) {
    TL_ASM_100A("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "n"(COLUMNS) : "memory");
}
TL_INLINE void tl_tmem_relinquish() { TL_ASM_100A("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory"); }

// -- products: A by descriptor (ss) or in tensor memory (ts); the last form leaves out rows whose bit is set ------
#define TL_TCGEN05_MMA(KIND, FORM, T, C, A)                                                                           \
    TL_INLINE void tl_tcgen05_mma_##FORM##_##KIND(uint32_t d, T a, uint64_t b, uint32_t instruction, bool accumulate) { \
        TL_ASM_100A("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"                                                      \
                     "tcgen05.mma.cta_group::1.kind::" #KIND " [%0], " A ", %2, %3, p;\n}"                            \
                     ::"r"(d), C(a), "l"(b), "r"(instruction), "r"((int)accumulate) : "memory");                      \
    }                                                                                                                 \
    TL_INLINE void tl_tcgen05_mma_##FORM##_##KIND(uint32_t d, T a, uint64_t b, uint32_t instruction, bool accumulate, \
                                                  uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3) {               \
        TL_ASM_100A("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"                                                      \
                     "tcgen05.mma.cta_group::1.kind::" #KIND " [%0], " A ", %2, %3, {%5, %6, %7, %8}, p;\n}"          \
                     ::"r"(d), C(a), "l"(b), "r"(instruction), "r"((int)accumulate), "r"(m0), "r"(m1), "r"(m2),       \
                       "r"(m3) : "memory");                                                                           \
    }
#define TL_TCGEN05_KIND(KIND) \
    TL_TCGEN05_MMA(KIND, ss, uint64_t, "l", "%1") TL_TCGEN05_MMA(KIND, ts, uint32_t, "r", "[%1]")
TL_TCGEN05_KIND(f16) TL_TCGEN05_KIND(tf32) TL_TCGEN05_KIND(f8f6f4) TL_TCGEN05_KIND(i8)

// -- order: barriers that learn of finished products, fences around barriers of threads ---------------------------
TL_INLINE void tl_tcgen05_commit(uint64_t* bar) {
    TL_ASM_100A("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(tl_shared_address(bar)) : "memory");
}
TL_INLINE void tl_tcgen05_commit_multicast(uint64_t* bar, uint32_t blocks) {
    TL_ASM_100A("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                 ::"r"(tl_shared_address(bar)), "h"((uint16_t)blocks) : "memory");
}
TL_INLINE void tl_tcgen05_fence_before() { TL_ASM_100A("tcgen05.fence::before_thread_sync;" ::: "memory"); }
TL_INLINE void tl_tcgen05_fence_after() { TL_ASM_100A("tcgen05.fence::after_thread_sync;" ::: "memory"); }
TL_INLINE void tl_tcgen05_wait_ld() { TL_ASM_100A("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }
TL_INLINE void tl_tcgen05_wait_st() { TL_ASM_100A("tcgen05.wait::st.sync.aligned;" ::: "memory"); }

// -- shared to tensor memory --------------------------------------------------------------------------------------
#define TL_TCGEN05_CP(NAME, SHAPE)                                                                                    \
    TL_INLINE void tl_tcgen05_cp_##NAME(uint32_t address, uint64_t descriptor) {                                      \
        TL_ASM_100A("tcgen05.cp.cta_group::1." SHAPE " [%0], %1;" ::"r"(address), "l"(descriptor) : "memory");       \
    }
TL_TCGEN05_CP(128x256b, "128x256b") TL_TCGEN05_CP(4x256b, "4x256b") TL_TCGEN05_CP(128x128b, "128x128b")
TL_TCGEN05_CP(64x128b_warpx2_02_13, "64x128b.warpx2::02_13") TL_TCGEN05_CP(64x128b_warpx2_01_23, "64x128b.warpx2::01_23")
TL_TCGEN05_CP(32x128b_warpx4, "32x128b.warpx4")

// -- registers and tensor memory: TL_TCGEN05_MOVE(32x32b, 8, 8) makes tl_tcgen05_ld_32x32b_x8 and _st_, where the
// last number counts the registers of a thread ---------------------------------------------------------------------
#define TL_Q1 "%0"
#define TL_Q2 TL_Q1 ", %1"
#define TL_Q4 TL_Q2 ", %2, %3"
#define TL_Q8 TL_Q4 ", %4, %5, %6, %7"
#define TL_Q16 TL_Q8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define TL_Q32 TL_Q16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TL_Q64 TL_Q32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TL_Q128 TL_Q64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define TL_OUT1(r) "=r"(r[0])
#define TL_OUT2(r) TL_OUT1(r), "=r"(r[1])
#define TL_OUT4(r) TL_OUT2(r), "=r"(r[2]), "=r"(r[3])
#define TL_OUT8(r) TL_OUT4(r), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7])
#define TL_OUT16(r) TL_OUT8(r), "=r"(r[8]), "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]), "=r"(r[13]), "=r"(r[14]), "=r"(r[15])
#define TL_OUT32(r) TL_OUT16(r), "=r"(r[16]), "=r"(r[17]), "=r"(r[18]), "=r"(r[19]), "=r"(r[20]), "=r"(r[21]), "=r"(r[22]), "=r"(r[23]), "=r"(r[24]), "=r"(r[25]), "=r"(r[26]), "=r"(r[27]), "=r"(r[28]), "=r"(r[29]), "=r"(r[30]), "=r"(r[31])
#define TL_OUT64(r) TL_OUT32(r), "=r"(r[32]), "=r"(r[33]), "=r"(r[34]), "=r"(r[35]), "=r"(r[36]), "=r"(r[37]), "=r"(r[38]), "=r"(r[39]), "=r"(r[40]), "=r"(r[41]), "=r"(r[42]), "=r"(r[43]), "=r"(r[44]), "=r"(r[45]), "=r"(r[46]), "=r"(r[47]), "=r"(r[48]), "=r"(r[49]), "=r"(r[50]), "=r"(r[51]), "=r"(r[52]), "=r"(r[53]), "=r"(r[54]), "=r"(r[55]), "=r"(r[56]), "=r"(r[57]), "=r"(r[58]), "=r"(r[59]), "=r"(r[60]), "=r"(r[61]), "=r"(r[62]), "=r"(r[63])
#define TL_OUT128(r) TL_OUT64(r), "=r"(r[64]), "=r"(r[65]), "=r"(r[66]), "=r"(r[67]), "=r"(r[68]), "=r"(r[69]), "=r"(r[70]), "=r"(r[71]), "=r"(r[72]), "=r"(r[73]), "=r"(r[74]), "=r"(r[75]), "=r"(r[76]), "=r"(r[77]), "=r"(r[78]), "=r"(r[79]), "=r"(r[80]), "=r"(r[81]), "=r"(r[82]), "=r"(r[83]), "=r"(r[84]), "=r"(r[85]), "=r"(r[86]), "=r"(r[87]), "=r"(r[88]), "=r"(r[89]), "=r"(r[90]), "=r"(r[91]), "=r"(r[92]), "=r"(r[93]), "=r"(r[94]), "=r"(r[95]), "=r"(r[96]), "=r"(r[97]), "=r"(r[98]), "=r"(r[99]), "=r"(r[100]), "=r"(r[101]), "=r"(r[102]), "=r"(r[103]), "=r"(r[104]), "=r"(r[105]), "=r"(r[106]), "=r"(r[107]), "=r"(r[108]), "=r"(r[109]), "=r"(r[110]), "=r"(r[111]), "=r"(r[112]), "=r"(r[113]), "=r"(r[114]), "=r"(r[115]), "=r"(r[116]), "=r"(r[117]), "=r"(r[118]), "=r"(r[119]), "=r"(r[120]), "=r"(r[121]), "=r"(r[122]), "=r"(r[123]), "=r"(r[124]), "=r"(r[125]), "=r"(r[126]), "=r"(r[127])
#define TL_IN1(r) "r"(r[0])
#define TL_IN2(r) TL_IN1(r), "r"(r[1])
#define TL_IN4(r) TL_IN2(r), "r"(r[2]), "r"(r[3])
#define TL_IN8(r) TL_IN4(r), "r"(r[4]), "r"(r[5]), "r"(r[6]), "r"(r[7])
#define TL_IN16(r) TL_IN8(r), "r"(r[8]), "r"(r[9]), "r"(r[10]), "r"(r[11]), "r"(r[12]), "r"(r[13]), "r"(r[14]), "r"(r[15])
#define TL_IN32(r) TL_IN16(r), "r"(r[16]), "r"(r[17]), "r"(r[18]), "r"(r[19]), "r"(r[20]), "r"(r[21]), "r"(r[22]), "r"(r[23]), "r"(r[24]), "r"(r[25]), "r"(r[26]), "r"(r[27]), "r"(r[28]), "r"(r[29]), "r"(r[30]), "r"(r[31])
#define TL_IN64(r) TL_IN32(r), "r"(r[32]), "r"(r[33]), "r"(r[34]), "r"(r[35]), "r"(r[36]), "r"(r[37]), "r"(r[38]), "r"(r[39]), "r"(r[40]), "r"(r[41]), "r"(r[42]), "r"(r[43]), "r"(r[44]), "r"(r[45]), "r"(r[46]), "r"(r[47]), "r"(r[48]), "r"(r[49]), "r"(r[50]), "r"(r[51]), "r"(r[52]), "r"(r[53]), "r"(r[54]), "r"(r[55]), "r"(r[56]), "r"(r[57]), "r"(r[58]), "r"(r[59]), "r"(r[60]), "r"(r[61]), "r"(r[62]), "r"(r[63])
#define TL_IN128(r) TL_IN64(r), "r"(r[64]), "r"(r[65]), "r"(r[66]), "r"(r[67]), "r"(r[68]), "r"(r[69]), "r"(r[70]), "r"(r[71]), "r"(r[72]), "r"(r[73]), "r"(r[74]), "r"(r[75]), "r"(r[76]), "r"(r[77]), "r"(r[78]), "r"(r[79]), "r"(r[80]), "r"(r[81]), "r"(r[82]), "r"(r[83]), "r"(r[84]), "r"(r[85]), "r"(r[86]), "r"(r[87]), "r"(r[88]), "r"(r[89]), "r"(r[90]), "r"(r[91]), "r"(r[92]), "r"(r[93]), "r"(r[94]), "r"(r[95]), "r"(r[96]), "r"(r[97]), "r"(r[98]), "r"(r[99]), "r"(r[100]), "r"(r[101]), "r"(r[102]), "r"(r[103]), "r"(r[104]), "r"(r[105]), "r"(r[106]), "r"(r[107]), "r"(r[108]), "r"(r[109]), "r"(r[110]), "r"(r[111]), "r"(r[112]), "r"(r[113]), "r"(r[114]), "r"(r[115]), "r"(r[116]), "r"(r[117]), "r"(r[118]), "r"(r[119]), "r"(r[120]), "r"(r[121]), "r"(r[122]), "r"(r[123]), "r"(r[124]), "r"(r[125]), "r"(r[126]), "r"(r[127])
#define TL_TCGEN05_MOVE(SHAPE, N, R)                                                                                  \
    TL_INLINE void tl_tcgen05_ld_##SHAPE##_x##N(void* regs, uint32_t address) {                                       \
        uint32_t* r = (uint32_t*)regs; (void)r;                                                                       \
        TL_ASM_100A("tcgen05.ld.sync.aligned." #SHAPE ".x" #N ".b32 {" TL_Q##R "}, [%" #R "];"                       \
                     : TL_OUT##R(r) : "r"(address) : "memory");                                                       \
    }                                                                                                                 \
    TL_INLINE void tl_tcgen05_st_##SHAPE##_x##N(uint32_t address, const void* regs) {                                 \
        const uint32_t* r = (const uint32_t*)regs; (void)r;                                                           \
        TL_ASM_100A("tcgen05.st.sync.aligned." #SHAPE ".x" #N ".b32 [%" #R "], {" TL_Q##R "};"                       \
                     ::TL_IN##R(r), "r"(address) : "memory");                                                         \
    }

#if TL_ARCH >= 1000
// -- the work of a block that has not started: the answer is 16 bytes in shared memory ------------------------------
TL_INLINE void tl_clc_try_cancel(void* result, uint64_t* bar) {
    asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];"
                 ::"r"(tl_shared_address(result)), "r"(tl_shared_address(bar)) : "memory");
}
TL_INLINE void tl_clc_try_cancel_multicast(void* result, uint64_t* bar) {
    TL_ASM_SPECIFIC("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%0], [%1];"
                 ::"r"(tl_shared_address(result)), "r"(tl_shared_address(bar)) : "memory");
}
TL_INLINE bool tl_clc_is_canceled(const void* result) {
    uint32_t canceled;
    asm volatile("{\n.reg .b128 answer;\n.reg .pred p;\nld.shared.b128 answer, [%1];\n"
                 "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, answer;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(canceled) : "r"(tl_shared_address(result)) : "memory");
    return canceled != 0;
}
#define TL_CLC_FIRST(AXIS)                                                                                            \
    TL_INLINE int32_t tl_clc_first_ctaid_##AXIS(const void* result) {                                                 \
        int32_t found;                                                                                                \
        asm volatile("{\n.reg .b128 answer;\nld.shared.b128 answer, [%1];\n"                                          \
                     "clusterlaunchcontrol.query_cancel.get_first_ctaid::" #AXIS ".b32.b128 %0, answer;\n}"           \
                     : "=r"(found) : "r"(tl_shared_address(result)) : "memory");                                      \
        return found;                                                                                                 \
    }
TL_CLC_FIRST(x) TL_CLC_FIRST(y) TL_CLC_FIRST(z)
#endif
#endif
