// wgmma as kernels call it: the warpgroup synchronizes, the operands are checked, and the product is submitted to the
// tensor core, which computes it at the latest when a thread waits for the group.
#include <memory>
#include <utility>
#include <vector>

#include "state.h"
#include "warpgroup.h"

namespace {

using namespace tl_emu;

struct Products {
    Thread* who;
    unsigned shape, kinds, flags;  // shape: n | k << 16
    void* d;
    const void* a;
    uint64_t descriptor_a, descriptor_b;
    bool accumulate;
    const void* pc;
};

// Products of a warpgroup are done in the order in which they were issued, whichever of them the scheduler picks.
struct Job {
    WarpgroupProduct product;
    const Fiber* first;  // of the warpgroup
    std::shared_ptr<Job> previous;
    bool done = false;

    // Registers of a thread that has returned no longer exist, and their contents cannot be checked.
    bool has_registers() const {
        for (uint32_t thread = 0; thread < 4 * warp_size; ++thread)
            if (first[thread].done) return false;
        return true;
    }
};

void run_in_order(const std::shared_ptr<Job>& latest) {
    std::vector<std::shared_ptr<Job>> chain;
    for (std::shared_ptr<Job> job = latest; job && !job->done; job = job->previous) chain.push_back(job);
    for (; !chain.empty(); chain.pop_back()) {
        chain.back()->done = true;
        chain.back()->previous.reset();
        if (chain.back()->has_registers()) chain.back()->product.run();
    }
}

bool differ(const Products& x, const Products& y) {
    return x.shape != y.shape || x.kinds != y.kinds || x.flags != y.flags || x.descriptor_b != y.descriptor_b ||
           (!(x.flags & a_in_registers) && x.descriptor_a != y.descriptor_a) || x.accumulate != y.accumulate;
}

uint32_t register_bytes(const WarpgroupProduct& p, bool of_a) {
    return of_a ? 16 : p.n / 2 * kind_bits(p.c) / 8;
}

void add_operand(Work& work, Thread* who, const SharedWindow& shared, const MatrixPlace& place, Kind kind, unsigned lines, unsigned k) {
    const auto ranges = matrix_ranges(place, kind, lines, k);
    check_operand(static_cast<Fiber*>(who), place.start, ranges, work.pc);
    for (const auto& [at, bytes] : ranges) work.reads.push_back({shared.base + at, bytes});
}

void check_descriptor(bool good, const char* which, uint64_t descriptor, const MatrixPlace& place, Kind kind, const void* pc) {
    if (!good)
        finding(TL_EMU_INVALID_DESCRIPTOR, TL_EMU_SHARED, pc, nullptr, 0, "the descriptor of %s, %#llx, sets bits that have to be zero", which, (unsigned long long)descriptor);
    if (place.mn_major && kind_bits(kind) != 16)
        finding(TL_EMU_INVALID_DESCRIPTOR, TL_EMU_SHARED, pc, nullptr, 0, "%s is not of 16 bits and so has to be K-major", which);
}

void issue(void** lanes, int count) {
    const auto* first = static_cast<const Products*>(lanes[0]);
    WarpgroupProduct p = {};
    for (int lane = 0; lane < count; ++lane) {
        const auto* mine = static_cast<const Products*>(lanes[lane]);
        if (mine == nullptr || first == nullptr) return;  // `collective` has reported it
        if (differ(*mine, *first)) {
            finding(TL_EMU_WARP_DIVERGENCE, TL_EMU_NO_SPACE, first->pc, nullptr, 0, "threads of a warpgroup give a wgmma different operands");
            stop();
        }
        p.d[lane] = mine->d;
        p.registers_a[lane] = mine->a;
    }
    p.n = first->shape & 0xffff;
    p.k = first->shape >> 16;
    p.a = static_cast<Kind>(first->kinds & 255);
    p.b = static_cast<Kind>(first->kinds >> 8 & 255);
    p.c = static_cast<Kind>(first->kinds >> 16 & 255);
    p.flags = first->flags;
    p.accumulate = first->accumulate;
    p.shared = {static_cast<uint8_t*>(shared_pointer(0)), 232448};
    const bool registers = p.flags & a_in_registers;
    if (!registers) check_descriptor(decode_wgmma(first->descriptor_a, p.flags & a_is_mn_major, p.place_a), "A", first->descriptor_a, p.place_a, p.a, first->pc);
    check_descriptor(decode_wgmma(first->descriptor_b, p.flags & b_is_mn_major, p.place_b), "B", first->descriptor_b, p.place_b, p.b, first->pc);
    Work work;
    work.what = "wgmma";
    work.pc = first->pc;
    work.group = Group::matrix;
    if (checking(TL_EMU_SHARED_RACES | TL_EMU_SHARED_BOUNDS)) {
        if (!registers) add_operand(work, first->who, p.shared, p.place_a, p.a, 64, p.k);
        add_operand(work, first->who, p.shared, p.place_b, p.b, p.n, p.k);
    }
    auto& tail = first->who->block->matrix_tails[first->who->linear / (4 * warp_size)];
    auto job = std::make_shared<Job>(Job{p, static_cast<const Fiber*>(first->who), std::static_pointer_cast<Job>(tail)});
    tail = job;
    work.run = [job] { run_in_order(job); };
    // All warps, or one after the other: each is taken to read all of both operands.
    const bool watched = checking(TL_EMU_SHARED_RACES | TL_EMU_SHARED_BOUNDS);
    for (int from = 0, part = part_of(count); from < count; from += part) {
        Work mine = work;
        if (part < count) mine.issuer = static_cast<const Products*>(lanes[from])->who;
        for (int lane = from; watched && lane < from + part; ++lane) {
            Thread* who = static_cast<const Products*>(lanes[lane])->who;
            mine.registers.push_back({who, {p.d[lane], register_bytes(p, false)}});
            if (registers) mine.registers.push_back({who, {p.registers_a[lane], register_bytes(p, true)}});
        }
        submit(std::move(mine));
    }
}

}  // namespace

// kinds: of a, b and d; flags: WarpgroupFlag; a: registers, or null with a descriptor.
extern "C" void tl_emu_wgmma(unsigned n, unsigned kinds, unsigned flags, void* d, const void* a, unsigned long long descriptor_a,
                             unsigned long long descriptor_b, int accumulate) {
    const unsigned k = 256 / kind_bits(static_cast<Kind>(kinds & 255));
    const size_t sums = n / 2 * kind_bits(static_cast<Kind>(kinds >> 16 & 255)) / 8;
    if (flags & a_in_registers) registers_read(a, 16, TL_EMU_PC());
    if (accumulate) registers_read(d, sums, TL_EMU_PC());
    registers_written(d, sums);
    Products mine = {self(), n | k << 16, kinds, flags, d, a, descriptor_a, descriptor_b, accumulate != 0, TL_EMU_PC()};
    collective_group("wgmma", 4, &mine, issue, TL_EMU_PC());
}
