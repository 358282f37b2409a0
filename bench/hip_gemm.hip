// C = A B^T of float16 on MI300 (gfx942), written by hand for comparison: see bench/hip_assembly.py.
//
// A block of 256 threads computes 128 x 128 in steps of 32 along k; each of its four wavefronts 64 x 64, as 2 x 2
// instructions of 32 x 32 x 8. Tiles come through registers: those of the next step are loaded before the products of
// this one and written to the other half of LDS behind them, one barrier per step. Rows of LDS have a gap of 16 bytes,
// so that the reads of 16 bytes of a wavefront go to all banks.
typedef _Float16 f16x4 __attribute__((ext_vector_type(4)));
typedef _Float16 f16x8 __attribute__((ext_vector_type(8)));
typedef float f32x16 __attribute__((ext_vector_type(16)));
#define DEVICE static inline __attribute__((device, always_inline))

enum { TILE = 128, STEP = 32, ROW = STEP + 8, SIZE = 4096 };

// 16 bytes of two rows of a tile for each thread.
DEVICE void load(f16x8* held, const _Float16* from, int thread) {
    for (int i = 0; i < 2; ++i) held[i] = *(const f16x8*)&from[(thread / 4 + i * 64) * SIZE + thread % 4 * 8];
}
DEVICE void store(const f16x8* held, _Float16* to, int thread) {
    for (int i = 0; i < 2; ++i) *(f16x8*)&to[(thread / 4 + i * 64) * ROW + thread % 4 * 8] = held[i];
}

extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(256, 256), amdgpu_waves_per_eu(2)))
void by_hand(
    const _Float16* __restrict__ a, const _Float16* __restrict__ b, _Float16* __restrict__ c) {
    static __attribute__((shared)) _Float16 lds[2][2][TILE * ROW];
    const int thread = __builtin_amdgcn_workitem_id_x(), lane = thread & 63, wave = thread >> 6;
    const int row = wave / 2 * 64 + lane % 32, column = wave % 2 * 64 + lane % 32, run = lane / 32 * 8;
    a += __builtin_amdgcn_workgroup_id_y() * TILE * SIZE;
    b += __builtin_amdgcn_workgroup_id_x() * TILE * SIZE;
    f16x8 next_a[2], next_b[2];
    f32x16 sum[2][2] = {};
    load(next_a, a, thread);
    load(next_b, b, thread);
    store(next_a, lds[0][0], thread);
    store(next_b, lds[0][1], thread);
    for (int step = 0; step < SIZE / STEP; ++step) {
        const int now = step & 1, behind = (step + 1) % (SIZE / STEP) * STEP;
        load(next_a, a + behind, thread);
        load(next_b, b + behind, thread);
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
        __builtin_amdgcn_s_barrier();
        for (int k = 0; k < STEP; k += 16) {
            f16x8 x[2], y[2];
            for (int i = 0; i < 2; ++i) {
                x[i] = *(const f16x8*)&lds[now][0][(row + i * 32) * ROW + k + run];
                y[i] = *(const f16x8*)&lds[now][1][(column + i * 32) * ROW + k + run];
            }
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j) {
                    sum[i][j] = __builtin_amdgcn_mfma_f32_32x32x8f16(y[j].lo, x[i].lo, sum[i][j], 0, 0, 0);
                    sum[i][j] = __builtin_amdgcn_mfma_f32_32x32x8f16(y[j].hi, x[i].hi, sum[i][j], 0, 0, 0);
                }
        }
        store(next_a, lds[now ^ 1][0], thread);
        store(next_b, lds[now ^ 1][1], thread);
    }
    // Operands exchanged: a lane has four neighbours along a row of the result.
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            for (int r = 0; r < 16; r += 4) {
                f16x4 four;
                for (int e = 0; e < 4; ++e) four[e] = (_Float16)sum[i][j][r + e];
                const int at = __builtin_amdgcn_workgroup_id_x() * TILE + column - lane % 32 + j * 32 + r * 2 + lane / 32 * 4;
                *(f16x4*)&c[(__builtin_amdgcn_workgroup_id_y() * TILE + row + i * 32) * SIZE + at] = four;
            }
}
