// The record of global memory. Inside a gang accesses are ordered as in shared memory; between gangs only by
// flags that one released and the other acquired.
#include <sys/mman.h>

#include <algorithm>

#include "checks.h"
#include "shadow.h"

namespace tl_emu {

GlobalShadow::GlobalShadow(const TlEmuLaunch& request) : first_(request.buffers), parts_(request.buffer_count) {}

GlobalShadow::~GlobalShadow() {
    for (const Part& part : parts_)
        if (part.cells != nullptr) munmap(part.cells, part.bytes);
}

GlobalCell* GlobalShadow::cells(const TlEmuBuffer& buffer) {
    Part& part = parts_[(size_t)(&buffer - first_)];
    if (part.cells == nullptr && part.bytes == 0) {
        part.bytes = (buffer.bytes / 2 + 2) * sizeof(GlobalCell);
        void* found = mmap(nullptr, part.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (found != MAP_FAILED) part.cells = static_cast<GlobalCell*>(found);
    }
    return part.cells;
}

namespace {

// What another gang did that used the cell last becomes flags.
void enter(GlobalCell& cell, uint32_t gang) {
    if (cell.gang == gang) return;
    if (cell.gang != 0) {
        if (cell_written(cell.write)) cell.write |= cell_foreign;
        if (cell.write & cell_plain_read) cell.write |= cell_others_read;
        if (cell.write & cell_atomic_used) cell.write |= cell_others_atomic;
        cell.write &= ~(cell_plain_read | cell_atomic_used);
    }
    cell.readers = 0;
    cell.gang = gang;
}

Conflict foreign_conflict(const Accessor& who, const GlobalCell& cell) {
    const bool reads = who.access == TL_EMU_READ, atomic = who.access == TL_EMU_ATOMIC;
    if (cell.write & cell_foreign)
        return {reads ? TL_EMU_RACE_WRITE_READ : TL_EMU_RACE_WRITE_WRITE, cell_owner(cell.write), cell.write_site,
                "an access that is not ordered after the write of another block", cell.write_gang + 1, who.access == TL_EMU_WRITE};
    const uint32_t size = worker->gang->order->size(), other = cell.others % size, gang = cell.others / size + 1;
    if ((cell.write & cell_others_atomic) && !atomic)
        return {reads ? TL_EMU_RACE_WRITE_READ : TL_EMU_RACE_WRITE_WRITE, other, cell.others_site,
                "an access that is not ordered after the atomic access of another block", gang};
    if ((cell.write & cell_others_read) && !reads)
        return {TL_EMU_RACE_READ_WRITE, other, cell.others_site, "a write that is not ordered after the read of another block", gang};
    return {};
}

void access_cell(Order& order, const Accessor& who, GlobalCell& cell, bool fresh, const void* p, size_t bytes) {
    if (fresh && who.access != TL_EMU_WRITE && !cell_written(cell.write))
        finding_by(&who.fiber, TL_EMU_UNINITIALISED_SHARED, TL_EMU_GLOBAL, who.pc, nullptr, TL_EMU_NOBODY, nullptr, p, bytes,
                   "global memory is read that nothing has been written to");
    const Gang& gang = *worker->gang;
    enter(cell, gang.number + 1);
    Conflict found;
    if ((cell.write & (cell_foreign | cell_others_read | cell_others_atomic)) != 0 && !gang.acquired)
        found = foreign_conflict(who, cell);
    if (found.text == nullptr && cell_written(cell.write) && (cell.write & cell_foreign) == 0)
        found = write_conflict(order, who, cell.write, cell.write_site);
    uint32_t readers = cell.readers;
    if (readers != 0 && who.is_thread() && order.stale(readers, who.block, who.fiber.block->first_read_set)) readers = 0;
    if (found.text == nullptr && readers != 0 && (who.access != TL_EMU_READ || order.any_atomic(readers)))
        found = reader_conflict(order, who, readers);
    if (found.text != nullptr) report_conflict(who, found, TL_EMU_GLOBAL, p, bytes);
    if (who.access != TL_EMU_WRITE) {
        if ((cell.write & (cell_others_read | cell_others_atomic)) == 0) {
            cell.others_site = who.site;
            cell.others = gang.number * order.size() + who.id;
        }
        cell.write |= who.access == TL_EMU_READ ? cell_plain_read : cell_atomic_used;
        cell.readers = with_reader(order, who, readers);
        return;
    }
    cell.write = cell_write(who.id, who.clock, who.flags);
    cell.write_site = who.site;
    cell.write_gang = gang.number;
    cell.readers = 0;
}

GlobalCell* split(GlobalShadow& shadow, GlobalCell& cell) {
    if ((cell.write & cell_split) == 0) {
        const uint32_t at = (uint32_t)shadow.singles.size();
        const GlobalCell copy = cell;
        shadow.singles.push_back(copy);
        shadow.singles.push_back(copy);
        cell = {cell_split, 0, at, 0, 0, 0, 0};
    }
    return &shadow.singles[cell.readers];
}

void access_global(const Accessor& who, const TlEmuBuffer& buffer, uint64_t offset, size_t bytes) {
    Order& order = *worker->gang->order;
    GlobalShadow& shadow = *worker->launch->global;
    GlobalCell* cells = shadow.cells(buffer);
    if (cells == nullptr) return;
    const void* p = (const void*)(buffer.base + offset);
    const uint64_t end = offset + bytes;
    const bool fresh = (buffer.writable & 2) != 0;
    for (uint64_t at = offset / 2; at * 2 < end; ++at) {
        GlobalCell& cell = cells[at];
        const bool first = at * 2 >= offset, second = at * 2 + 1 < end;
        if (first && second && (cell.write & cell_split) == 0) {
            access_cell(order, who, cell, fresh, p, bytes);
            continue;
        }
        GlobalCell* singles = split(shadow, cell);
        if (first) access_cell(order, who, singles[0], fresh, p, bytes);
        if (second) access_cell(order, who, singles[1], fresh, p, bytes);
    }
}

}  // namespace

void order_global(Fiber& who, const TlEmuBuffer& buffer, uint64_t offset, size_t bytes, TlEmuAccess access, const void* pc) {
    access_global(accessor_of(who, access, pc), buffer, offset, bytes);
}

void order_global(const Accessor& who, const void* p, size_t bytes) {
    const TlEmuLaunch& request = worker->launch->request;
    for (uint32_t k = 0; k < request.buffer_count; ++k) {
        const uint64_t offset = (uint64_t)p - request.buffers[k].base;
        if (offset >= request.buffers[k].bytes) continue;
        access_global(who, request.buffers[k], offset, std::min<size_t>(bytes, request.buffers[k].bytes - offset));
        return;
    }
}

// -- flags -------------------------------------------------------------------------------------------------------
void release_at(const void* p) {
    if (worker->flags == 0 || !worker->gang->order) return;
    p = canonical(p);
    Gang& gang = *worker->gang;
    gang.order->release(gang.flag_order[p], *current());
    if (checks(TL_EMU_GLOBAL_RACES) && block_of(gang, p) == nullptr) worker->launch->global->released.try_emplace(p, gang.number);
}

void acquire_at(const void* p) {
    if (worker->flags == 0 || !worker->gang->order) return;
    p = canonical(p);
    Gang& gang = *worker->gang;
    auto found = gang.flag_order.find(p);
    if (found != gang.flag_order.end()) gang.order->acquire(*current(), found->second);
    if (!checks(TL_EMU_GLOBAL_RACES)) return;
    auto& released = worker->launch->global->released;
    auto other = released.find(p);
    // Gangs run one after the other, so all that the other one did is over. That some of it came after its release
    // is not seen.
    if (other != released.end() && other->second != gang.number) gang.acquired = true;
}

constexpr size_t most_observed = 16;

void note_atomic(Fiber& fiber, const void* p) {
    if (fiber.fenced_before) release_at(p);
    if (fiber.observed.size() >= most_observed) fiber.observed.erase(fiber.observed.begin());
    fiber.observed.push_back(p);
}

// A fence orders what the thread did before it before its later atomic writes, and what others released through the
// atomic variables that it has read before what it does now.
void note_fence(Fiber& fiber, int) {
    fiber.fenced_before = true;
    for (const void* p : fiber.observed) acquire_at(p);
    fiber.observed.clear();
}
}  // namespace tl_emu
