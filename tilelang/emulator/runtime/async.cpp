// Asynchronous copies of single threads, and work that other units do: when it happens, whom it wakes.
#include "async.h"

#include <algorithm>
#include <cstring>

#include "checks.h"
#include "state.h"

namespace tl_emu {

namespace {

enum AgentKind : uint64_t { barrier_agent = 1, reader_agent = 2, writer_agent = 3 };

uint64_t agent_key(AgentKind kind, uint64_t which) { return which << 2 | kind; }

uint64_t group_key(Group group, const Fiber& fiber) {
    const uint64_t owner = group == Group::matrix ? fiber.linear / (checks(TL_EMU_WARP_PRODUCTS) ? warp_size : 4 * warp_size) : fiber.linear;
    return ((uint64_t)fiber.block->number << 32 | owner) << 2 | (uint64_t)group;
}

GroupQueue& queue_of(Group group, const Fiber& fiber) {
    return fiber.gang->async->groups[group_key(group, fiber)];
}

// Does the work and updates the barriers that it signals.
void complete(Gang& gang, Task& task) {
    if (task.done) return;
    task.done = true;
    gang.idle_yields = 0;
    if (task.work.run) task.work.run();
    if (gang.flags & TL_EMU_EVENTS) note_work(task);
    for (const Arrival& arrival : task.work.arrivals) {
        Mbarrier* bar = find_mbarrier(arrival.barrier);
        if (bar == nullptr) {
            finding(TL_EMU_MBARRIER_MISUSE, TL_EMU_SHARED, task.work.pc, arrival.barrier, 8,
                    "%s signals an mbarrier that has not been initialised", task.work.what);
            continue;
        }
        if (gang.order) gang.order->release(bar->gathering, task.writer, task.write_clock);
        bar->bytes -= arrival.bytes;
        if (bar->pending == 0 && bar->bytes < 0)
            finding(TL_EMU_MBARRIER_MISUSE, TL_EMU_SHARED, task.work.pc, arrival.barrier, 8,
                    "%s brings more bytes than the mbarrier expects", task.work.what);
        if (bar->pending == 0 && bar->bytes == 0) finish_phase(*bar);
    }
    for (void* barrier : task.plain_arrivals) {
        Mbarrier* bar = find_mbarrier(barrier);
        if (bar == nullptr) continue;
        if (gang.order) gang.order->release(bar->gathering, task.writer, task.write_clock);
        if (bar->pending > 0) --bar->pending;
        if (bar->pending == 0 && bar->bytes == 0) finish_phase(*bar);
    }
}

void complete_at(Gang& gang, size_t at) {
    std::deque<std::shared_ptr<Task>>& pending = gang.async->pending;
    std::shared_ptr<Task> task = pending[at];
    pending.erase(pending.begin() + (std::ptrdiff_t)at);
    complete(gang, *task);
}

// Clocks of the units that read and write for the task. Groups have numbers, which are their clocks; work that
// signals a barrier is numbered per barrier.
void give_clocks(Gang& gang, Task& task, GroupQueue* queue) {
    Block& block = *task.block;
    if (queue != nullptr) {
        const uint64_t key = group_key(task.work.group, *task.issuer);
        task.reader = queue->agent_read = agent_for(block, agent_key(reader_agent, key));
        task.writer = queue->agent_write = agent_for(block, agent_key(writer_agent, key));
        task.read_clock = task.write_clock = queue->count() + 1;
        return;
    }
    const void* first = task.plain_arrivals.empty() ? nullptr : task.plain_arrivals[0];
    const auto which = (uint64_t)canonical(task.work.arrivals.empty() ? first : task.work.arrivals[0].barrier);
    task.reader = task.writer = agent_for(block, agent_key(barrier_agent, which));
    task.read_clock = task.write_clock = ++gang.async->clocks[task.writer];
}

void hand_over(Gang& gang, std::shared_ptr<Task> task) {
    ++gang.async_operations;
    gang.idle_yields = 0;
    if (gang.schedule == TL_EMU_EARLY) complete(gang, *task);
    else gang.async->pending.push_back(std::move(task));
}

void move_copy(AsyncCopy& copy) {
    if (copy.moved) return;
    copy.moved = true;
    if (copy.source != nullptr) memcpy(copy.target, copy.source, copy.bytes);
    else memset(copy.target, 0, copy.bytes);
}

}  // namespace

uint32_t agent_for(Block& block, uint64_t key) {
    Gang& gang = *block.gang;
    auto [at, fresh] = block.agent_of.try_emplace(key, 0u);
    if (fresh) {
        // More units than there are clocks: the last ones share one, which can hide a missing wait for one of them.
        const uint32_t number = std::min(block.agents++, block_agents - 1);
        at->second = gang.threads * gang.block_count + block.number * block_agents + number;
    }
    return at->second;
}

bool do_some_work(Gang& gang) {
    std::deque<std::shared_ptr<Task>>& pending = gang.async->pending;
    if (pending.empty()) return false;
    complete_at(gang, gang.schedule == TL_EMU_LATE ? pending.size() - 1 : 0);
    return true;
}

void do_random_work(Gang& gang) {
    const uint32_t count = (uint32_t)gang.async->pending.size();
    if (count > 0 && random_below(gang, 16) == 0) complete_at(gang, random_below(gang, count));
}

namespace {

void report_unfinished(const std::vector<std::shared_ptr<Task>>& tasks) {
    for (const std::shared_ptr<Task>& task : tasks)
        finding_by(task->issuer, TL_EMU_ASYNC_UNFINISHED, TL_EMU_NO_SPACE, task->work.pc, nullptr, TL_EMU_NONE, nullptr,
                   nullptr, 0, "the block ends before its asynchronous operation has been waited for");
}

}  // namespace

void finish_work(Gang& gang) {
    AsyncUnit& unit = *gang.async;
    if (unit.pending.empty() && unit.groups.empty()) return;
    gang.worker->current = &gang.fibers[0];
    for (const auto& [key, queue] : unit.groups) {
        report_unfinished(queue.open);
        for (const std::vector<std::shared_ptr<Task>>& tasks : queue.committed) report_unfinished(tasks);
    }
    while (do_some_work(gang)) {}
}

namespace {

// One finding says enough of an operation.
void check_extents(const Task& task) {
    const Work& work = task.work;
    for (const Span& span : work.reads)
        if (!check_extent(task.issuer, span.address, span.bytes, TL_EMU_READ, work.pc)) return;
    for (const Span& span : work.writes)
        if (!check_extent(task.issuer, span.address, span.bytes, TL_EMU_WRITE, work.pc)) return;
}

}  // namespace

// -- the interface of tl_emu.h -----------------------------------------------------------------------------------
void submit(Work&& work) { submit_task(std::move(work)); }

std::shared_ptr<Task> submit_task(Work&& work) {
    Fiber* me = work.issuer == nullptr ? current() : static_cast<Fiber*>(work.issuer);
    Gang& gang = *me->gang;
    auto task = std::make_shared<Task>();
    task->work = std::move(work);
    task->plain_arrivals = task->work.arrives;
    for (const Arrival& arrival : task->work.arrivals) {
        Mbarrier* barrier = checks(TL_EMU_SHARED_RACES) ? find_mbarrier(arrival.barrier) : nullptr;
        if (barrier == nullptr) continue;
        check_made(*barrier, arrival.barrier, task->work.pc);
        if (barrier->visible) continue;
        barrier->visible = true;  // reported once
        finding(TL_EMU_MISSING_PROXY_FENCE, TL_EMU_SHARED, task->work.pc, arrival.barrier, 8,
                "the mbarrier was initialised without a fence that shows it to asynchronous operations");
    }
    task->issuer = me;
    task->block = me->block;
    task->began = gang.switches;
    if (worker->flags & (TL_EMU_SHARED_BOUNDS | TL_EMU_GLOBAL_BOUNDS)) check_extents(*task);
    GroupQueue* queue = task->work.group == Group::none ? nullptr : &queue_of(task->work.group, *me);
    if (gang.order) {
        give_clocks(gang, *task, queue);
        order_task(*task);
    }
    if (queue != nullptr) {
        if (worker->flags & TL_EMU_SHARED_RACES)
            for (const auto& [thread, span] : task->work.registers)
                use_registers(*static_cast<Fiber*>(thread), span, queue->count() + 1, task->work.pc);
        queue->open.push_back(task);
    }
    hand_over(gang, task);
    return task;
}

void commit_group(Group group, Thread& by) {
    GroupQueue& queue = queue_of(group, static_cast<Fiber&>(by));
    queue.committed.push_back(std::move(queue.open));
    queue.open.clear();
}

void wait_group(Group group, uint32_t left, bool reads_only, const void* pc) {
    (void)pc;
    Fiber* me = current();
    Gang& gang = *me->gang;
    GroupQueue& queue = queue_of(group, *me);
    const uint32_t total = queue.count();
    if (total <= left) return;
    const uint32_t done = total - left;
    while (queue.first < done) {
        for (const std::shared_ptr<Task>& task : queue.committed.front()) {
            std::deque<std::shared_ptr<Task>>& pending = gang.async->pending;
            auto at = std::find(pending.begin(), pending.end(), task);
            if (at != pending.end()) complete_at(gang, (size_t)(at - pending.begin()));
        }
        queue.committed.pop_front();
        ++queue.first;
    }
    std::erase_if(me->registers, [&](const OwnedRegisters& each) { return each.group <= done; });
    if (gang.order && queue.agent_read != 0) {
        gang.order->learn(*me, queue.agent_read, done);
        if (!reads_only) gang.order->learn(*me, queue.agent_write, done);
    }
}

void fence_proxy_async() {
    Fiber* me = current();
    for (auto& [place, barrier] : me->gang->async->mbarriers)
        if (barrier.maker == me->id) barrier.visible = true;
    if (me->gang->order) me->gang->order->fence_proxy(*me);
}

// -- cp.async ----------------------------------------------------------------------------------------------------
void move_copies(Fiber& fiber, size_t count) {
    for (size_t k = 0; k < count; ++k) {
        move_copy(fiber.copies[k]);
        if (fiber.gang->order) disown_copy(fiber, fiber.copies[k]);
        if (fiber.gang->flags & TL_EMU_EVENTS) note_copy(fiber, fiber.copies[k]);
    }
    fiber.copies.erase(fiber.copies.begin(), fiber.copies.begin() + (std::ptrdiff_t)count);
    for (size_t& end : fiber.copy_groups) end = end > count ? end - count : 0;
}

}  // namespace tl_emu

using namespace tl_emu;

extern "C" {

void tl_emu_cp_async(void* target, const void* source, unsigned bytes) {
    Fiber* me = current();
    const void* pc = TL_EMU_PC();
    AsyncCopy copy{target, source, bytes, false, 0, pc, me->gang->switches};
    if (const uint32_t flags = worker->flags) {
        worker->flags &= ~uint32_t{TL_EMU_EVENTS};  // it is an event of its own when it is waited for
        const bool allowed = observe(me, target, bytes, TL_EMU_WRITE, pc, bytes) &&
                             (source == nullptr || observe(me, source, bytes, TL_EMU_READ, pc, bytes));
        worker->flags = flags;
        if (!allowed) return;
        if (me->gang->order) own_copy(*me, copy);
    }
    const uint32_t schedule = me->gang->schedule;
    if (schedule == TL_EMU_EARLY || (schedule == TL_EMU_RANDOM && random_below(*me->gang, 2) == 0)) move_copy(copy);
    me->copies.push_back(copy);
}

void tl_emu_cp_async_commit(void) {
    Fiber* me = current();
    me->copy_groups.push_back(me->copies.size());
}

void tl_emu_cp_async_wait(unsigned left) {
    Fiber* me = current();
    if (me->copy_groups.size() <= left) return;
    const size_t groups = me->copy_groups.size() - left;
    const size_t count = me->copy_groups[groups - 1];
    me->copy_groups.erase(me->copy_groups.begin(), me->copy_groups.begin() + (std::ptrdiff_t)groups);
    move_copies(*me, count);
}

// The thread's copies so far become one piece of work that ends with an arrival.
void tl_emu_cp_async_mbarrier_arrive(void* bar) {
    Fiber* me = current();
    Gang& gang = *me->gang;
    auto task = std::make_shared<Task>();
    task->work.what = "cp.async";
    task->work.pc = TL_EMU_PC();
    task->issuer = me;
    task->block = me->block;
    task->began = gang.switches;
    task->plain_arrivals.push_back(bar);
    std::vector<AsyncCopy> copies = me->copies;
    if (gang.order) {
        task->writer = agent_for(*me->block, agent_key(barrier_agent, (uint64_t)canonical(bar)));
        task->write_clock = ++gang.async->clocks[task->writer];
        for (const AsyncCopy& copy : copies) disown_copy(copy, task->writer, task->write_clock);
    }
    task->work.run = [copies]() mutable {
        for (AsyncCopy& copy : copies) move_copy(copy);
    };
    me->copies.clear();
    std::fill(me->copy_groups.begin(), me->copy_groups.end(), (size_t)0);
    hand_over(gang, std::move(task));
}

void tl_emu_bulk_commit(void) { commit_group(Group::bulk, *current()); }
void tl_emu_bulk_wait(unsigned left, int reads_only) { wait_group(Group::bulk, left, reads_only != 0, TL_EMU_PC()); }

}  // extern "C"
