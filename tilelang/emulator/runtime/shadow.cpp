// The order of accesses: what an access conflicts with, and the record of shared memory.
#include "shadow.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "async.h"
#include "checks.h"

namespace tl_emu {

namespace {

int32_t site_of(const void* pc) { return (int32_t)((const char*)pc - worker->launch->anchor); }

TlEmuKind race_kind(TlEmuAccess access, bool after_write) {
    if (!after_write) return TL_EMU_RACE_READ_WRITE;
    return access == TL_EMU_READ ? TL_EMU_RACE_WRITE_READ : TL_EMU_RACE_WRITE_WRITE;
}

}  // namespace

Accessor accessor_of(Fiber& fiber, TlEmuAccess access, const void* pc) {
    return {fiber, fiber.id, fiber.clock, 0, access, pc, site_of(pc), fiber.block->number};
}

Conflict write_conflict(const Order& order, const Accessor& who, uint64_t write, int32_t site) {
    const uint32_t owner = cell_owner(write);
    if (write & cell_pending)
        return {TL_EMU_MISSING_WAIT, owner, site, "cp.async that wrote here has not been waited for"};
    if (!order.known(who.fiber, owner, cell_clock(write))) {
        if (owner >= order.threads())
            return {TL_EMU_MISSING_WAIT, owner, site, "the asynchronous operation that writes here has not been waited for"};
        const char* text = who.access == TL_EMU_READ ? "a read that is not ordered after the write of another thread"
                                                     : "a write that is not ordered after the write of another thread";
        return {race_kind(who.access, true), owner, site, text, 0, who.access == TL_EMU_WRITE};
    }
    if (!who.is_thread() && (write & cell_async) == 0 && owner < order.threads() &&
        !order.fenced(who.fiber, owner, cell_clock(write)))
        return {TL_EMU_MISSING_PROXY_FENCE, owner, site,
                "an asynchronous operation uses what a thread wrote without fence.proxy.async in between"};
    return {};
}

Conflict reader_conflict(const Order& order, const Accessor& who, uint32_t readers) {
    uint32_t count = 0;
    const Reader* all = order.readers(readers, count);
    for (uint32_t k = 0; k < count; ++k) {
        // Reads do not conflict with each other, nor do atomic accesses.
        if (who.access != TL_EMU_WRITE && all[k].atomic == (who.access == TL_EMU_ATOMIC)) continue;
        if (order.known(who.fiber, all[k].id, all[k].clock)) continue;
        if (all[k].atomic)
            return {race_kind(who.access, true), all[k].id, all[k].site,
                    "an access that is not ordered after the atomic access of another thread"};
        if (all[k].id >= order.threads())
            return {TL_EMU_MISSING_WAIT, all[k].id, all[k].site,
                    "a write while an asynchronous operation, which has not been waited for, may still read"};
        return {TL_EMU_RACE_READ_WRITE, all[k].id, all[k].site, "a write that is not ordered after the read of another thread"};
    }
    return {};
}

void report_conflict(const Accessor& who, const Conflict& conflict, TlEmuSpace space, const void* p, size_t bytes) {
    const Gang& gang = *worker->gang;
    const uint32_t total = gang.threads * gang.block_count;
    uint32_t other, block;
    if (conflict.owner < total) {
        other = conflict.owner % gang.threads;
        block = conflict.owner / gang.threads;
    } else {
        other = TL_EMU_ASYNC_UNIT + (conflict.owner - total) % block_agents;
        block = (conflict.owner - total) / block_agents;
    }
    // All gangs of a launch are of one form.
    const Uint3 index = block_index(*worker->launch, conflict.gang != 0 ? conflict.gang - 1 : gang.number, block);
    HeldStore held{conflict.kind, space, who.pc, place_of(conflict.site), p, other, (uint32_t)bytes, index, conflict.text, {}};
    if (conflict.stores && worker->storing && bytes <= sizeof held.before) {
        memcpy(held.before, p, bytes);
        who.fiber.held_stores.push_back(held);
        return;
    }
    finding_by(&who.fiber, held.kind, space, held.pc, held.other_pc, other, &index, p, bytes, held.text);
}

// Threads that store the same value in one place leave it there in whatever order they come.
void settle_stores(Fiber& fiber) {
    for (const HeldStore& held : fiber.held_stores)
        if (memcmp(held.before, held.address, held.bytes) != 0)
            finding_by(&fiber, held.kind, held.space, held.pc, held.other_pc, held.other, &held.other_block, held.address, held.bytes, held.text);
    fiber.held_stores.clear();
}

uint32_t with_reader(Order& order, const Accessor& who, uint32_t readers) {
    const bool atomic = who.access == TL_EMU_ATOMIC;
    if (who.is_thread()) return order.with_reader(readers, who.fiber, who.site, atomic);
    return order.with_reader(readers, nullptr, {who.id, who.clock, who.site, atomic});
}

// -- shared memory -----------------------------------------------------------------------------------------------
SharedShadow::~SharedShadow() {
    if (cells_ != nullptr) munmap(cells_, capacity_ * (arena_room / 2) * sizeof(Cell));
}

bool SharedShadow::reset(size_t blocks) {
    if (blocks > capacity_) {
        if (cells_ != nullptr) munmap(cells_, capacity_ * (arena_room / 2) * sizeof(Cell));
        const size_t bytes = blocks * (arena_room / 2) * sizeof(Cell);
        void* found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        cells_ = found == MAP_FAILED ? nullptr : static_cast<Cell*>(found);
        capacity_ = cells_ != nullptr ? blocks : 0;
        high_.assign(capacity_, 0);
        return cells_ != nullptr;
    }
    for (size_t k = 0; k < high_.size(); ++k) {
        memset((void*)cells((uint32_t)k), 0, high_[k] * sizeof(Cell));
        high_[k] = 0;
    }
    singles.clear();
    return true;
}

namespace {

// What the last cell of an access found, since its neighbours are mostly in the same state.
struct Memo {
    uint64_t write = 0, written_ok = 0;
    uint32_t readers_ok = 0;
};

void access_cell(Order& order, const Accessor& who, Cell& cell, const void* p, size_t bytes, Memo& memo) {
    const uint64_t write = cell.write;
    if (write == 0) {
        if (who.access != TL_EMU_WRITE)
            finding_by(&who.fiber, TL_EMU_UNINITIALISED_SHARED, TL_EMU_SHARED, who.pc, nullptr, TL_EMU_NONE, nullptr, p, bytes,
                       "shared memory is read that nothing has been written to");
    } else if (write != memo.written_ok) {
        const Conflict found = write_conflict(order, who, write, cell.write_site);
        if (found.text != nullptr) report_conflict(who, found, TL_EMU_SHARED, p, bytes);
        else memo.written_ok = write;
    }
    if ((write & cell_unset) != 0 && who.access != TL_EMU_WRITE && !worker->moving)
        finding_by(&who.fiber, TL_EMU_UNINITIALISED_SHARED, TL_EMU_SHARED, who.pc, nullptr, TL_EMU_NONE, nullptr, p, bytes,
                   "shared memory is read to which registers were moved that nothing has been written to");
    uint32_t readers = cell.readers;
    if (readers != 0 && who.is_thread() && order.stale(readers, who.block, who.fiber.block->first_read_set)) readers = 0;
    if (readers != 0 && readers != memo.readers_ok && (who.access != TL_EMU_READ || order.any_atomic(readers))) {
        const Conflict found = reader_conflict(order, who, readers);
        if (found.text != nullptr) report_conflict(who, found, TL_EMU_SHARED, p, bytes);
        else memo.readers_ok = readers;
    }
    if (who.access != TL_EMU_WRITE) {
        cell.readers = with_reader(order, who, readers);
        return;
    }
    if (cell.readers == 0 && cell_written(write) && checks(TL_EMU_LOST_WRITES))
        report_conflict(who, {TL_EMU_LOST_WRITE, cell_owner(write), cell.write_site, "it is written over"},
                        TL_EMU_SHARED, p, bytes);
    cell.write = cell_write(who.id, who.clock, who.flags);
    cell.write_site = who.site;
    cell.readers = 0;
}

// The bytes of a cell one by one.
Cell* split(SharedShadow& shadow, Cell& cell) {
    if ((cell.write & cell_split) == 0) {
        const uint32_t at = (uint32_t)shadow.singles.size();
        shadow.singles.push_back(cell);
        shadow.singles.push_back(cell);
        cell = {cell_split, 0, at};
    }
    return &shadow.singles[cell.readers];
}

void access_shared(const Accessor& who, Block& owner, const void* p, size_t bytes) {
    Order& order = *worker->gang->order;
    SharedShadow& shadow = *worker->shadow;
    const int32_t from = shared_offset(p);
    if (from < 0 || from + bytes > arena_room) return;  // an access that has been reported
    const uint32_t offset = (uint32_t)from, end = offset + (uint32_t)bytes;
    shadow.use(owner.number, (end + 1) / 2);
    if (owner.live == 0 && who.block != owner.number)
        finding_by(&who.fiber, TL_EMU_EARLY_EXIT, TL_EMU_SHARED, who.pc, nullptr, TL_EMU_NONE, nullptr, p, bytes,
                   "the block whose memory it is has ended");
    Cell* cells = shadow.cells(owner.number);
    Memo memo;
    for (uint32_t at = offset / 2; at * 2 < end; ++at) {
        Cell& cell = cells[at];
        const bool first = at * 2 >= offset, second = at * 2 + 1 < end;
        if (first && second && (cell.write & cell_split) == 0) {
            access_cell(order, who, cell, p, bytes, memo);
            continue;
        }
        Cell* bytes_of = split(shadow, cell);
        if (first) access_cell(order, who, bytes_of[0], p, bytes, memo);
        if (second) access_cell(order, who, bytes_of[1], p, bytes, memo);
        if (first && second && who.access == TL_EMU_WRITE) cell = bytes_of[1];
    }
}

// Calls act(cell) for all cells of a copy's target; those of four bytes and more are never split.
template <class Act> void each_cell(const AsyncCopy& copy, Act act) {
    Gang& gang = *worker->gang;
    Block* owner = block_of(gang, copy.target);
    if (owner == nullptr || worker->shadow == nullptr || !inside_tile(copy.target, copy.bytes)) return;
    const auto offset = (size_t)shared_offset(copy.target);
    Cell* cells = worker->shadow->cells(owner->number);
    for (size_t at = offset / 2; at * 2 < offset + copy.bytes; ++at) act(cells[at]);
}

}  // namespace

void order_shared(Fiber& who, Block& owner, const void* p, size_t bytes, TlEmuAccess access, const void* pc) {
    access_shared(accessor_of(who, access, pc), owner, p, bytes);
}

namespace {

// The byte at an offset of a block's memory, in a cell of its own if `alone`.
Cell& byte_cell(Block& owner, uint32_t offset, bool alone) {
    Cell& cell = worker->shadow->cells(owner.number)[offset / 2];
    if ((cell.write & cell_split) == 0 && !alone) return cell;
    return split(*worker->shadow, cell)[offset % 2];
}

}  // namespace

void begin_shared_byte(const void* p) {
    Block* owner = worker->shadow == nullptr ? nullptr : block_of(*worker->gang, p);
    if (owner == nullptr || !inside_tile(p, 1)) return;
    Cell& cell = byte_cell(*owner, (uint32_t)shared_offset(p), true);
    if (cell.write == 0) cell.write = cell_begun;  // before all that threads do
}

uint32_t unset_shared(Block& owner, const void* p, size_t bytes) {
    const int32_t from = shared_offset(p);
    if (from < 0 || from + bytes > arena_room) return 0;
    uint32_t found = 0;
    for (uint32_t k = 0; k < bytes; ++k)
        if ((byte_cell(owner, (uint32_t)from + k, false).write & cell_unset) != 0) found |= 1u << k;
    return found;
}

void unset_shared_again(Block& owner, const void* p, uint32_t which) {
    for (uint32_t k = 0; k < 16; ++k) {
        if ((which >> k & 1) == 0) continue;
        const uint32_t offset = (uint32_t)shared_offset(p) + k, other = offset % 2 == 0 ? k + 1 : k - 1;
        const bool both = other < 16 && (which >> other & 1) != 0;
        byte_cell(owner, offset, !both).write |= cell_unset;
    }
}

void own_copy(Fiber& who, AsyncCopy& copy) {
    if (!checks(TL_EMU_SHARED_RACES)) return;
    copy.mark = cell_write(who.id, ++worker->copy_marks, cell_pending);
    each_cell(copy, [&](Cell& cell) { cell.write = copy.mark; });
}

void disown_copy(Fiber& who, const AsyncCopy& copy) {
    if (copy.mark == 0) return;
    each_cell(copy, [&](Cell& cell) {
        if (cell.write == copy.mark) cell.write = cell_write(who.id, who.clock, 0);
    });
}

void disown_copy(const AsyncCopy& copy, uint32_t agent, uint32_t clock) {
    if (copy.mark == 0) return;
    each_cell(copy, [&](Cell& cell) {
        if (cell.write == copy.mark) cell.write = cell_write(agent, clock, 0);
    });
}

// -- asynchronous work -------------------------------------------------------------------------------------------
namespace {

void order_span(Task& task, const Span& span, TlEmuAccess access) {
    if (span.bytes == 0) return;
    const bool reads = access == TL_EMU_READ;
    const Accessor who{*task.issuer, reads ? task.reader : task.writer, reads ? task.read_clock : task.write_clock, cell_async,
                       access, task.work.pc, site_of(task.work.pc), task.block->number};
    Gang& gang = *worker->gang;
    if (Block* owner = block_of(gang, span.address)) {
        if (checks(TL_EMU_SHARED_RACES))
            access_shared(who, *owner, span.address, span.bytes);
    } else if (checks(TL_EMU_GLOBAL_RACES)) {
        order_global(who, span.address, span.bytes);
    }
}

}  // namespace

void order_task(Task& task) {
    for (const Span& span : task.work.reads) order_span(task, span, TL_EMU_READ);
    for (const Span& span : task.work.writes) order_span(task, span, task.work.reduces ? TL_EMU_ATOMIC : TL_EMU_WRITE);
}
}  // namespace tl_emu
