// Matrix instructions as kernels call them: the lanes of a warp synchronize, then one of them computes for all.
#include "mma.h"
#include "state.h"

namespace {

using tl_emu::Kind;

enum class Form { dense, sparse, quads };

struct Operands {
    tl_emu::MmaAtom atom;
    void* d;
    const void *a, *b;
    Form form = Form::dense;
    unsigned metadata = 0, selector = 0;  // sparse
    bool a_columns = false, b_columns = false;  // quads
};

void multiply_lanes(void** lanes, tl_emu::LaneMask) {
    void* d[32];
    const void *a[32], *b[32];
    tl_emu::Sparsity sparse;
    for (int lane = 0; lane < 32; ++lane) {
        const auto* mine = static_cast<const Operands*>(lanes[lane]);
        if (mine == nullptr) return;  // `collective` has reported it
        d[lane] = mine->d;
        a[lane] = mine->a;
        b[lane] = mine->b;
        sparse.metadata[lane] = mine->metadata;
    }
    const auto& first = *static_cast<const Operands*>(lanes[0]);
    sparse.selector = first.selector;
    if (first.form == Form::quads) tl_emu::mma_quads(first.a_columns, first.b_columns, first.atom.c, d, a, b);
    else tl_emu::mma_warp(first.atom, d, a, b, first.form == Form::sparse ? &sparse : nullptr);
}

// elect.sync: the lowest active lane.
void choose(void** lanes, tl_emu::LaneMask) {
    for (int lane = 0; lane < 32; ++lane)
        if (lanes[lane] != nullptr) {
            *static_cast<int*>(lanes[lane]) = 1;
            return;
        }
}

// What the calling lane brings: its share of both factors, of A only what is stored, and of the sum.
void read_operands(const Operands& mine, const void* pc) {
    if (tl_emu::worker->marks == nullptr) return;
    const tl_emu::MmaAtom& t = mine.atom;
    const auto share = [](unsigned elements, Kind kind) { return (size_t)elements * tl_emu::kind_bits(kind) / 8 / 32; };
    const bool quads = mine.form == Form::quads;
    tl_emu::registers_read(mine.a, quads ? 8 : share(t.m * t.k, t.a) / (mine.form == Form::sparse ? 2 : 1), pc);
    tl_emu::registers_read(mine.b, quads ? 8 : share(t.n * t.k, t.b), pc);
    tl_emu::registers_read(mine.d, share(t.m * t.n, t.c), pc);
    tl_emu::registers_written(mine.d, share(t.m * t.n, t.c));
}

tl_emu::MmaAtom atom_of(unsigned shape, unsigned kinds) {
    return {shape & 255, shape >> 8 & 255, shape >> 16, Kind(kinds & 255), Kind(kinds >> 8 & 255), Kind(kinds >> 16)};
}

}  // namespace

extern "C" {

// shape: m, n, k in bytes from the lowest; kinds: those of a, b and d.
void tl_emu_mma(unsigned shape, unsigned kinds, void* d, const void* a, const void* b) {
    Operands mine = {atom_of(shape, kinds), d, a, b};
    read_operands(mine, TL_EMU_PC());
    const tl_emu::Multiplying unit;
    tl_emu::collective("mma.sync", 0xffffffffu, &mine, multiply_lanes, TL_EMU_PC());
}
void tl_emu_mma_sparse(unsigned shape, unsigned kinds, void* d, const void* a, const void* b, unsigned metadata, unsigned selector) {
    Operands mine = {atom_of(shape, kinds), d, a, b, Form::sparse, metadata, selector};
    read_operands(mine, TL_EMU_PC());
    const tl_emu::Multiplying unit;
    tl_emu::collective("mma.sp.sync", 0xffffffffu, &mine, multiply_lanes, TL_EMU_PC());
}
void tl_emu_mma_quads(int a_columns, int b_columns, unsigned kind, void* d, const void* a, const void* b) {
    Operands mine = {{16, 16, 4, tl_emu::kind_f16, tl_emu::kind_f16, Kind(kind)}, d, a, b, Form::quads, 0, 0,
                     a_columns != 0, b_columns != 0};
    read_operands(mine, TL_EMU_PC());
    const tl_emu::Multiplying unit;
    tl_emu::collective("mma.sync of quads", 0xffffffffu, &mine, multiply_lanes, TL_EMU_PC());
}

int tl_emu_elect(void) {
    int chosen = 0;
    tl_emu::collective("elect.sync", 0xffffffffu, &chosen, choose, TL_EMU_PC());
    return chosen;
}

}  // extern "C"
