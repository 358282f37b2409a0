// The record of global memory. Inside a gang accesses are ordered as in shared memory; between gangs only by flags that a
// thread of one released and a thread of the other acquired.
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

// Whether what a thread of any gang did up to `clock` comes before what `fiber` does now.
bool knows(const Fiber& fiber, uint32_t gang, uint32_t id, uint32_t clock) {
    if (gang == worker->gang->number) return worker->gang->order->known(fiber, id, clock);
    const std::vector<uint32_t>* clocks = clocks_of(fiber.view->foreign, gang);
    return clocks != nullptr && (*clocks)[id] >= clock;
}

Conflict foreign_write(const Accessor& who, const GlobalCell& cell) {
    if (knows(who.fiber, cell.write_gang, cell_owner(cell.write), cell_clock(cell.write))) return {};
    return {who.access == TL_EMU_READ ? TL_EMU_RACE_WRITE_READ : TL_EMU_RACE_WRITE_WRITE, cell_owner(cell.write), cell.write_site,
            "an access that is not ordered after the write of another block", cell.write_gang + 1, who.access == TL_EMU_WRITE};
}

// Readers of the same gang are looked at one by one elsewhere.
Conflict foreign_reader(const Accessor& who, const GlobalCell& cell) {
    GlobalShadow& shadow = *worker->launch->global;
    const Witnesses::Set& set = shadow.witnesses.at(cell.witnesses);
    if (set.all.empty() || (who.access == TL_EMU_READ && !set.any_atomic)) return {};
    const uint64_t looked[3] = {who.fiber.view->serial, cell.witnesses, (uint64_t)worker->gang->number << 8 | (uint64_t)who.access};
    if (std::equal(looked, looked + 3, shadow.ordered)) return {};
    for (const Witness& each : set.all) {
        if (each.gang == worker->gang->number || (who.access != TL_EMU_WRITE && each.atomic == (who.access == TL_EMU_ATOMIC))) continue;
        if (knows(who.fiber, each.gang, each.id, each.clock)) continue;
        if (each.atomic)
            return {who.access == TL_EMU_READ ? TL_EMU_RACE_WRITE_READ : TL_EMU_RACE_WRITE_WRITE, each.id, each.site,
                    "an access that is not ordered after the atomic access of another block", each.gang + 1};
        return {TL_EMU_RACE_READ_WRITE, each.id, each.site, "a write that is not ordered after the read of another block", each.gang + 1};
    }
    std::copy(looked, looked + 3, shadow.ordered);
    return {};
}

void access_cell(Order& order, const Accessor& who, GlobalCell& cell, bool fresh, const void* p, size_t bytes) {
    if (fresh && who.access != TL_EMU_WRITE && !cell_written(cell.write))
        finding_by(&who.fiber, TL_EMU_UNINITIALISED_SHARED, TL_EMU_GLOBAL, who.pc, nullptr, TL_EMU_NONE, nullptr, p, bytes,
                   "global memory is read that nothing has been written to");
    const Gang& gang = *worker->gang;
    if (cell.gang != gang.number + 1) cell.readers = 0;
    cell.gang = gang.number + 1;
    Conflict found = foreign_reader(who, cell);
    if (found.text == nullptr && cell_written(cell.write))
        found = cell.write_gang != gang.number ? foreign_write(who, cell) : write_conflict(order, who, cell.write, cell.write_site);
    uint32_t readers = cell.readers;
    if (readers != 0 && who.is_thread() && order.stale(readers, who.block, who.fiber.block->first_read_set)) readers = 0;
    if (found.text == nullptr && readers != 0 && (who.access != TL_EMU_READ || order.any_atomic(readers)))
        found = reader_conflict(order, who, readers);
    if (found.text != nullptr) report_conflict(who, found, TL_EMU_GLOBAL, p, bytes);
    if (who.access != TL_EMU_WRITE) {
        cell.readers = with_reader(order, who, readers);
        const Witness mine{gang.number, who.id, who.clock, who.site, who.access == TL_EMU_ATOMIC};
        cell.witnesses = worker->launch->global->witnesses.with(cell.witnesses, mine, who.fiber);
        return;
    }
    cell.write = cell_write(who.id, who.clock, who.flags);
    cell.write_site = who.site;
    cell.write_gang = gang.number;
    cell.readers = cell.witnesses = 0;
}

GlobalCell* split(GlobalShadow& shadow, GlobalCell& cell) {
    if ((cell.write & cell_split) == 0) {
        const uint32_t at = (uint32_t)shadow.singles.size();
        const GlobalCell copy = cell;
        shadow.singles.push_back(copy);
        shadow.singles.push_back(copy);
        cell = {cell_split, 0, at, 0, 0, 0};
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

// -- readers of all gangs ------------------------------------------------------------------------------------------
namespace {
constexpr size_t most_of_gang = 32, most_witnesses = 96, most_in_sets = 1u << 21;
}

size_t Witnesses::Hash::operator()(const Step& step) const {
    uint64_t h = ((uint64_t)step.from << 32 | step.who.id) * 0x9E3779B97F4A7C15ull ^
                 ((uint64_t)step.who.gang << 32 | step.who.clock) * 0xC2B2AE3D27D4EB4Full ^
                 ((uint64_t)(uint32_t)step.who.site << 1 | step.who.atomic);
    h = (h ^ h >> 29) * 0xBF58476D1CE4E5B9ull;
    return (size_t)(h ^ h >> 32);
}

uint32_t Witnesses::with(uint32_t from, const Witness& who, const Fiber& fiber) {
    if (from < base_) from = 0;
    Step& last = last_[from % 8];
    if (last.to >= base_ && last.from == from && last.who == who) return last.to;
    Step step{from, 0, who};
    const auto found = steps_.find(step);
    if (found != steps_.end()) return (last = *found).to;
    step.to = added(from, who, fiber);
    if (from < base_) step.from = 0;
    steps_.insert(step);
    return (last = step).to;
}

uint32_t Witnesses::added(uint32_t from, const Witness& who, const Fiber& fiber) {
    if (size_ > most_in_sets) {  // the oldest are forgotten
        base_ += (uint32_t)sets_.size();
        sets_.clear();
        steps_.clear();
        size_ = 0;
    }
    Set made;
    size_t of_gang = 0;
    for (const Witness& each : at(from).all) {
        if (each.atomic == who.atomic && ((each.gang == who.gang && each.id == who.id) || knows(fiber, each.gang, each.id, each.clock)))
            continue;
        of_gang += each.gang == who.gang;
        made.all.push_back(each);
    }
    if (of_gang >= most_of_gang && from >= base_) return from;
    if (made.all.size() >= most_witnesses) made.all.erase(made.all.begin());
    made.all.push_back(who);
    for (const Witness& each : made.all) made.any_atomic = made.any_atomic || each.atomic;
    size_ += made.all.size();
    sets_.push_back(std::move(made));
    return base_ + (uint32_t)sets_.size() - 1;
}

// -- flags -------------------------------------------------------------------------------------------------------
// Order through a flag is that of its releases: who acquires it knows what those knew that released it, and no more.
void release_at(const void* p) {
    if (worker->flags == 0 || !worker->gang->order) return;
    p = canonical(p);
    Gang& gang = *worker->gang;
    gang.order->release(gang.flag_order[p], *current());
    if (checks(TL_EMU_GLOBAL_RACES) && block_of(gang, p) == nullptr)
        gang.order->release(worker->launch->global->flags[p], *current(), gang.number);
}

void acquire_at(const void* p) {
    if (worker->flags == 0 || !worker->gang->order) return;
    p = canonical(p);
    Gang& gang = *worker->gang;
    auto found = gang.flag_order.find(p);
    if (found != gang.flag_order.end()) gang.order->acquire(*current(), found->second);
    if (!checks(TL_EMU_GLOBAL_RACES)) return;
    const auto& flags = worker->launch->global->flags;
    auto other = flags.find(p);
    if (other != flags.end()) gang.order->acquire(*current(), other->second, gang.number);
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
