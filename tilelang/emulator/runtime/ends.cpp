// The end of a block: threads that may still use its shared memory, and data in it that no thread has read.
#include "async.h"
#include "checks.h"
#include "shadow.h"

namespace tl_emu {

namespace {

// Accesses by other blocks that `last`, which knows all that its own block knew, does not know to be over.
void check_others(Fiber& last, const Cell& cell, const void* p) {
    Gang& gang = *last.gang;
    const Order& order = *gang.order;
    const auto check = [&](uint32_t id, uint32_t clock, int32_t site) {
        if (id >= order.threads() || id / gang.threads == last.block->number || order.known(last, id, clock)) return;
        Block& other = gang.blocks[id / gang.threads];
        finding_by(&other.fibers[id % gang.threads], TL_EMU_EARLY_EXIT, TL_EMU_SHARED, place_of(site), nullptr, TL_EMU_NONE,
                   nullptr, p, 2, "nothing orders the access before the end of the block whose memory it is");
    };
    if (cell_written(cell.write)) check(cell_owner(cell.write), cell_clock(cell.write), cell.write_site);
    uint32_t count = 0;
    const Reader* all = order.readers(cell.readers, count);
    for (uint32_t k = 0; k < count; ++k) check(all[k].id, all[k].clock, all[k].site);
}

void check_unread(Fiber& last, const Cell& cell, const void* p) {
    if (!cell_written(cell.write) || cell.readers != 0) return;
    if (find_mbarrier((const void*)((uintptr_t)p & ~(uintptr_t)7)) != nullptr) return;  // which is read unseen
    finding_by(&last, TL_EMU_LOST_WRITE, TL_EMU_SHARED, place_of(cell.write_site), nullptr, TL_EMU_NONE, nullptr, p, 2,
               "the block ends");
}

template <class Act> void each_cell(const Block& block, Act act) {
    SharedShadow& shadow = *worker->shadow;
    const Cell* cells = shadow.cells(block.number);
    for (size_t at = 0; at < shadow.used(block.number); ++at) {
        const void* p = block.arena + 2 * at;
        if (cells[at].write & cell_split)
            for (uint32_t k = 0; k < 2; ++k) act(shadow.singles[cells[at].readers + k], p);
        else
            act(cells[at], p);
    }
}

}  // namespace

void order_end(Fiber& me) {
    Block& block = *me.block;
    Order& order = *me.gang->order;
    const bool others = me.gang->cluster_size > 1, unread = checks(TL_EMU_LOST_WRITES);
    if (!checks(TL_EMU_SHARED_RACES) || !(others || unread) || worker->shadow == nullptr) return;
    if (others) order.release(block.ended, me);
    if (block.live > 0) return;
    if (others) order.acquire(me, block.ended);
    each_cell(block, [&](const Cell& cell, const void* p) {
        if (others) check_others(me, cell, p);
        if (unread) check_unread(me, cell, p);
    });
}
}  // namespace tl_emu
