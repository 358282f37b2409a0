// Instructions on tiles, by the manual's text of each: what raises an exception there ends the program here. It takes
// the place of those in tl_tile.h where TL_TILE_MODEL names this file.
#include <math.h>
#include <string.h>

static __thread struct { int configured; struct { int rows, bytes; uint8_t row[16][64]; } tile[8]; } tl_machine;

static __attribute__((unused)) int tl_tiles(void) {
#ifdef TL_TILES_REFUSED
    return 0;
#else
    return 1;
#endif
}
static void model_config(const void* at) {
    uint8_t bytes[64];
    memcpy(bytes, at, 64);
    memset(&tl_machine, 0, sizeof tl_machine);
    if (bytes[0] != 1) __builtin_trap();
    for (int i = 2; i < 16; ++i) if (bytes[i]) __builtin_trap();
    for (int t = 0; t < 16; ++t) {
        const int wide = bytes[16 + 2 * t] | bytes[17 + 2 * t] << 8, rows = bytes[48 + t];
        if (wide > 64 || rows > 16 || !wide != !rows || (t >= 8 && rows)) __builtin_trap();
        if (t < 8) { tl_machine.tile[t].rows = rows; tl_machine.tile[t].bytes = wide; }
    }
    tl_machine.configured = 1;
}
static void model_known(int t) { if (!tl_machine.configured || !tl_machine.tile[t].rows) __builtin_trap(); }
static void model_zero(int t) {
    model_known(t);
    memset(tl_machine.tile[t].row, 0, 1024);
}
static void model_load(int t, const void* at, long row) {
    model_zero(t);
    for (int r = 0; r < tl_machine.tile[t].rows; ++r)
        memcpy(tl_machine.tile[t].row[r], (const char*)at + r * row, (size_t)tl_machine.tile[t].bytes);
}
static void model_store(int t, void* at, long row) {
    model_known(t);
    for (int r = 0; r < tl_machine.tile[t].rows; ++r)
        memcpy((char*)at + r * row, tl_machine.tile[t].row[r], (size_t)tl_machine.tile[t].bytes);
}
static void model_shapes(int c, int a, int b) {
    if (c == a || c == b || a == b) __builtin_trap();
    model_known(c); model_known(a); model_known(b);
    if (tl_machine.tile[c].rows != tl_machine.tile[a].rows || tl_machine.tile[c].bytes != tl_machine.tile[b].bytes
        || tl_machine.tile[a].bytes != 4 * tl_machine.tile[b].rows) __builtin_trap();
}
static __attribute__((unused)) void model_bytes(int c, int a, int b, int a_signed, int b_signed) {
    model_shapes(c, a, b);
    for (int m = 0; m < tl_machine.tile[c].rows; ++m)
        for (int n = 0; n < tl_machine.tile[c].bytes / 4; ++n) {
            uint32_t sum;
            memcpy(&sum, &tl_machine.tile[c].row[m][4 * n], 4);
            for (int k = 0; k < tl_machine.tile[a].bytes; ++k) {
                const uint8_t x = tl_machine.tile[a].row[m][k], y = tl_machine.tile[b].row[k / 4][4 * n + k % 4];
                sum += (uint32_t)((a_signed ? (int8_t)x : x) * (b_signed ? (int8_t)y : y));
            }
            memcpy(&tl_machine.tile[c].row[m][4 * n], &sum, 4);
        }
}
// Numbers below the normal ones are zero, read and written.
static float model_normal(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x; }
static float model_brain(const uint8_t* at) {
    const uint32_t bits = (uint32_t)at[0] << 16 | (uint32_t)at[1] << 24;
    float x;
    memcpy(&x, &bits, 4);
    return model_normal(x);
}
static __attribute__((unused)) void model_brains(int c, int a, int b) {
    model_shapes(c, a, b);
    for (int m = 0; m < tl_machine.tile[c].rows; ++m)
        for (int n = 0; n < tl_machine.tile[c].bytes / 4; ++n) {
            float sums[2] = {0, 0}, old;
            for (int k = 0; k < tl_machine.tile[a].bytes / 2; ++k)
                sums[k % 2] = model_normal(fmaf(model_brain(&tl_machine.tile[a].row[m][2 * k]),
                                                model_brain(&tl_machine.tile[b].row[k / 2][4 * n + k % 2 * 2]), sums[k % 2]));
            memcpy(&old, &tl_machine.tile[c].row[m][4 * n], 4);
            old = model_normal(model_normal(old) + model_normal(sums[0] + sums[1]));
            memcpy(&tl_machine.tile[c].row[m][4 * n], &old, 4);
        }
}
#define TL_TILE_CONFIG(P) model_config(P)
#define TL_TILE_RELEASE() memset(&tl_machine, 0, sizeof tl_machine)
#define TL_TILE_ZERO(T) model_zero(T)
#define TL_TILE_LOAD(T, P, ROW) model_load(T, P, ROW)
#define TL_TILE_STORE(T, P, ROW) model_store(T, P, ROW)
#define TL_TDPBSSD(C, A, B) model_bytes(C, A, B, 1, 1)
#define TL_TDPBSUD(C, A, B) model_bytes(C, A, B, 1, 0)
#define TL_TDPBUSD(C, A, B) model_bytes(C, A, B, 0, 1)
#define TL_TDPBUUD(C, A, B) model_bytes(C, A, B, 0, 0)
#define TL_TDPBF16PS(C, A, B) model_brains(C, A, B)
