// Bulk asynchronous copies as kernels start them: what is wrong with the operands is found at once, the data
// moves when the scheduler lets the unit run.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "atomics.h"
#include "state.h"
#include "tl_emu.h"
#include "tma_copy.h"

extern "C" int tl_emu_is_shared(const void* p);

namespace {

using namespace tl_emu;

constexpr int most_blocks = 16;  // of a cluster
constexpr uint32_t any_order = TL_EMU_SHARED_RACES | TL_EMU_GLOBAL_RACES | TL_EMU_GLOBAL_BOUNDS | TL_EMU_SHARED_BOUNDS;

std::vector<Span> spans(const std::vector<Range>& ranges) {
    std::vector<Span> made;
    for (const Range& range : ranges) made.push_back({range.address, range.bytes});
    return made;
}

bool aligned(const void* p, unsigned to, TlEmuSpace space, const void* pc, const char* what) {
    if (reinterpret_cast<uintptr_t>(p) % to == 0) return true;
    finding(TL_EMU_MISALIGNED, space, pc, p, 0, "%s has to be aligned to %u bytes", what, to);
    return false;
}

bool in_shared(const void* p, const void* pc, const char* what) {
    if (tl_emu_is_shared(p)) return true;
    finding(TL_EMU_OTHER, TL_EMU_NO_SPACE, pc, p, 0, "%s has to be in shared memory", what);
    return false;
}

// A bulk copy with operands that the hardware refuses ends the launch there too.
void require(bool holds) {
    if (!holds) stop();
}

// shape: rank, 256 for im2col.
Box box_of(const void* map, unsigned shape, const int* at, const unsigned short* offsets, const void* pc) {
    Box box;
    std::memcpy(&box.map, map, sizeof(box.map));
    if (box.map.magic != tensor_map_magic || box.map.rank != (shape & 255) || box.map.im2col != (shape >> 8)) {
        if (box.map.magic != tensor_map_magic)
            finding(TL_EMU_INVALID_DESCRIPTOR, TL_EMU_NO_SPACE, pc, map, 128, "these bytes are no tensor map");
        else
            finding(TL_EMU_INVALID_DESCRIPTOR, TL_EMU_NO_SPACE, pc, map, 128, "the instruction takes a %s map of rank %u, this is a %s map of rank %u",
                    shape >> 8 ? "im2col" : "tiled", shape & 255, box.map.im2col ? "im2col" : "tiled", box.map.rank);
        stop();
    }
    const Unit unit = unit_of(box.map);
    for (int d = 0; d < 5; ++d) box.at[d] = d < box.map.rank ? at[d] : 0;
    for (int d = 0; d < 3; ++d) box.offsets[d] = box.map.im2col && d < box.map.rank - 2 ? offsets[d] : 0;
    if (box.at[0] % (int)unit.elements) {
        finding(TL_EMU_INVALID_DESCRIPTOR, TL_EMU_NO_SPACE, pc, map, 128, "the first coordinate of packed elements has to be a multiple of %u, it is %d", unit.elements, box.at[0]);
        stop();
    }
    // Seen on an H200 as CUDA_ERROR_ILLEGAL_INSTRUCTION, for every type, rank and swizzle, both loads and stores.
    const int64_t along = box.at[0] / (int64_t)unit.elements * unit.global_bytes;
    if (along % 16) {
        finding(TL_EMU_MISALIGNED, TL_EMU_NO_SPACE, pc, map, 128, "the first coordinate has to be a multiple of 16 bytes, %d is %lld", box.at[0], (long long)along);
        stop();
    }
    return box;
}

// A store or reduction may end behind the tensor, not begin before it: seen on an H200 as
// CUDA_ERROR_ILLEGAL_INSTRUCTION, for every swizzle and dimension of tiled maps, where loads give the fill.
bool begins_inside(const Box& box, const void* map, const void* pc) {
    for (int d = 0; d < box.map.rank && !box.map.im2col; ++d)
        if (box.at[d] < 0) {
            finding(TL_EMU_OUT_OF_BOUNDS, TL_EMU_NO_SPACE, pc, map, 128, "a tensor store takes no negative coordinates, coordinate %d is %d", d, box.at[d]);
            return false;
        }
    return true;
}

// The tiles of one load and the barriers that learn of them: in this block, or in those of `multicast`.
struct Targets {
    TilePlace places[most_blocks];
    void* barriers[most_blocks];
    int count = 0;
};

Targets targets_of(void* dst, void* bar, unsigned multicast) {
    Targets made;
    const uint32_t address = shared_address(dst);
    if (multicast == 0) {
        made.places[0] = {static_cast<uint8_t*>(dst), address};
        made.barriers[0] = bar;
        made.count = 1;
        return made;
    }
    for (uint32_t rank = 0; rank < most_blocks; ++rank)
        if (multicast >> rank & 1) {
            made.places[made.count] = {static_cast<uint8_t*>(map_shared(dst, rank)), address};
            made.barriers[made.count++] = map_shared(bar, rank);
        }
    return made;
}

void reduce_range(char what, Kind kind, uint8_t* dst, const uint8_t* src, uint32_t bytes) {
    if (what == '=') { std::memcpy(dst, src, bytes); return; }
    const uint32_t step = kind_bits(kind) / 8;
    for (uint32_t at = 0; at < bytes; at += step) reduce_element(what, kind, dst + at, src + at);
}

bool bulk_operands(const void* shared, const void* other, uint32_t bytes, const void* pc) {
    bool good = in_shared(shared, pc, "one side of a bulk copy") && aligned(shared, 16, TL_EMU_SHARED, pc, "the shared side of a bulk copy");
    good = aligned(other, 16, tl_emu_is_shared(other) ? TL_EMU_SHARED : TL_EMU_GLOBAL, pc, "the other side of a bulk copy") && good;
    if (bytes % 16) {
        finding(TL_EMU_MISALIGNED, TL_EMU_NO_SPACE, pc, shared, bytes, "the size of a bulk copy has to be a multiple of 16 bytes, it is %u", bytes);
        good = false;
    }
    return good;
}

}  // namespace

extern "C" {

// -- boxes of tensors
void tl_emu_tma_load(unsigned shape, void* dst, const void* map, void* bar, const int* at, const unsigned short* offsets, unsigned multicast) {
    const void* pc = TL_EMU_PC();
    const Box box = box_of(map, shape, at, offsets, pc);
    require(in_shared(dst, pc, "the tile of a tensor load") && aligned(dst, 128, TL_EMU_SHARED, pc, "the tile of a tensor load"));
    const Targets targets = targets_of(dst, bar, multicast);
    Work work;
    work.what = box.map.im2col ? "TMA im2col load" : "TMA load";
    work.pc = pc;
    if (checking(any_order)) {
        work.reads = spans(global_ranges(box));
        for (int t = 0; t < targets.count; ++t)
            for (const Range& range : shared_ranges(box.map, targets.places[t])) work.writes.push_back({range.address, range.bytes});
    }
    const uint32_t bytes = line_bytes(box.map) * line_count(box.map);
    for (int t = 0; t < targets.count; ++t) work.arrivals.push_back({targets.barriers[t], bytes});
    work.run = [box, targets] { load_box(box, targets.places, targets.count); };
    submit(static_cast<Work&&>(work));
}

// what: '=' or a reduction.
void tl_emu_tma_store(unsigned shape, const void* map, const void* src, const int* at, const unsigned short* offsets, char what) {
    const void* pc = TL_EMU_PC();
    const Box box = box_of(map, shape, at, offsets, pc);
    require(begins_inside(box, map, pc));
    require(in_shared(src, pc, "the tile of a tensor store") && aligned(src, 128, TL_EMU_SHARED, pc, "the tile of a tensor store"));
    const TilePlace place = {static_cast<uint8_t*>(const_cast<void*>(src)), shared_address(src)};
    Work work;
    work.what = what == '=' ? "TMA store" : "TMA reduction";
    work.pc = pc;
    work.group = Group::bulk;
    if (checking(any_order)) {
        work.reads = spans(shared_ranges(box.map, place));
        work.writes = spans(global_ranges(box));
    }
    work.reduces = what != '=';
    work.run = [box, place, what] { store_box(box, place, what); };
    submit(static_cast<Work&&>(work));
}

// The first of `threads` issues a box for all of them: what others would copy is compared when all have come.
void tl_emu_tma_agree(unsigned line, unsigned threads, const int* at, unsigned count) {
    if (!checking(any_order)) return;
    const void* pc = TL_EMU_PC();
    Fiber& me = *current();
    Agreement& all = me.block->agreements[line];
    all.times.resize(me.gang->threads);
    const uint32_t time = all.times[me.linear]++;
    auto& said = all.said[time];
    said.push_back({me.linear, {at, at + count}});
    if (said.size() < threads) return;
    std::sort(said.begin(), said.end());
    const auto& [issuer, wanted] = said.front();
    uint32_t other = TL_EMU_NONE, others = 0;
    char text[128] = "";
    for (const auto& [thread, values] : said) {
        if (values == wanted) continue;
        const auto d = std::mismatch(values.begin(), values.end(), wanted.begin()).first - values.begin();
        if (others++ > 0) continue;
        other = thread;
        snprintf(text, sizeof text, "coordinate %d is %d in thread %u and %d in thread %u", (int)d, wanted[d], issuer, values[d], thread);
    }
    if (others > 0) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "; %u of %u threads differ", others, threads);
        finding_by(&me.block->fibers[other], TL_EMU_DISAGREEMENT, TL_EMU_NO_SPACE, pc, nullptr, issuer, nullptr, nullptr, 0, text);
    }
    all.said.erase(time);
}

// A hint: only the operands are looked at.
void tl_emu_tma_prefetch(unsigned shape, const void* map, const int* at, const unsigned short* offsets) {
    box_of(map, shape, at, offsets, TL_EMU_PC());
}
void tl_emu_tma_prefetch_map(const void* map) {
    uint64_t magic;
    std::memcpy(&magic, map, sizeof(magic));
    if (magic != tensor_map_magic)
        finding(TL_EMU_INVALID_DESCRIPTOR, TL_EMU_NO_SPACE, TL_EMU_PC(), map, 128, "these bytes are no tensor map");
}

// -- contiguous bytes
// Into shared memory: from global memory, or from shared memory of this block to another of the cluster.
void tl_emu_bulk_load(void* dst, const void* src, unsigned bytes, void* bar, unsigned multicast) {
    const void* pc = TL_EMU_PC();
    require(bulk_operands(dst, src, bytes, pc));
    const Targets targets = targets_of(dst, bar, multicast);
    Work work;
    work.what = tl_emu_is_shared(src) ? "bulk copy to a block of the cluster" : "bulk load";
    work.pc = pc;
    work.reads.push_back({src, bytes});
    for (int t = 0; t < targets.count; ++t) {
        work.writes.push_back({targets.places[t].data, bytes});
        work.arrivals.push_back({targets.barriers[t], bytes});
    }
    work.run = [=] {
        for (int t = 0; t < targets.count; ++t) std::memcpy(targets.places[t].data, src, bytes);
    };
    submit(static_cast<Work&&>(work));
}

// From shared to global memory, in the thread's open group.
void tl_emu_bulk_store(void* dst, const void* src, unsigned bytes, unsigned kind, char what) {
    const void* pc = TL_EMU_PC();
    require(bulk_operands(src, dst, bytes, pc));
    Work work;
    work.what = what == '=' ? "bulk store" : "bulk reduction";
    work.pc = pc;
    work.group = Group::bulk;
    work.reads.push_back({src, bytes});
    work.writes.push_back({dst, bytes});
    work.reduces = what != '=';
    work.run = [=] {
        reduce_range(what, static_cast<Kind>(kind), static_cast<uint8_t*>(dst), static_cast<const uint8_t*>(src), bytes);
    };
    submit(static_cast<Work&&>(work));
}

// A reduction into shared memory of another block of the cluster, which an mbarrier there learns of.
void tl_emu_bulk_reduce_shared(void* dst, const void* src, unsigned bytes, void* bar, unsigned kind, char what) {
    const void* pc = TL_EMU_PC();
    require(bulk_operands(dst, src, bytes, pc));
    Work work;
    work.what = "bulk reduction in the cluster";
    work.pc = pc;
    work.reads.push_back({src, bytes});
    work.writes.push_back({dst, bytes});
    work.reduces = true;
    work.arrivals.push_back({bar, bytes});
    work.run = [=] {
        reduce_range(what, static_cast<Kind>(kind), static_cast<uint8_t*>(dst), static_cast<const uint8_t*>(src), bytes);
    };
    submit(static_cast<Work&&>(work));
}

}  // extern "C"
