// Meetings of threads: the block's barrier, named barriers, warps, warpgroups, clusters, the grid.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "async.h"
#include "checks.h"
#include "state.h"

namespace tl_emu {

namespace {

// All that wait at a barrier know from now on what gathered there.
void pass_on(Order& order, Joined& joined, Waiters& waiters, Fiber* me) {
    View* view = order.view_of(joined);
    for (Fiber* fiber = waiters.first; fiber != nullptr; fiber = fiber->next_waiter) order.acquire(*fiber, view);
    if (me != nullptr) order.acquire(*me, view);
    order.drop(view);
    joined.clear();
}

// -- __syncthreads -----------------------------------------------------------------------------------------------
// The barrier opens, since those that have ended count as being there. A thread that returned early is not meant
// to come (CUDA C++ Programming Guide, "Synchronization Functions": all non-exited threads); one that ran to the end
// of the kernel has missed the barrier.
void report_absent(Block& block, const void* pc) {
    const Fiber *first = block.fibers, *end = first + block.gang->threads;
    const Fiber* gone = std::find_if(first, end, [](const Fiber& each) { return each.done && !each.left; });
    if (gone == end) return;
    Fiber* here = const_cast<Fiber*>(std::find_if(first, end, [](const Fiber& each) { return !each.done; }));
    char text[160];
    snprintf(text, sizeof text, "%u of %u threads are there; thread %u and %u others have ended without it", block.live,
             block.gang->threads, gone->linear, block.gang->threads - block.live - 1);
    finding_by(here, TL_EMU_BARRIER_DIVERGENCE, TL_EMU_NO_SPACE, pc, nullptr, TL_EMU_NONE, nullptr, nullptr, 0, text);
}

// The last thread is here, or another one has left: all go on.
void open_block(Block& block, Fiber* me) {
    Gang& gang = *block.gang;
    ++gang.barriers;
    if (block.live < gang.threads && gang.order) report_absent(block, block.sync_pc);
    block.arrived = 0;
    block.sync_pc = nullptr;
    block.result = block.votes;
    if (gang.order) {
        // All of them have joined, so what they know is exactly the joined view.
        View* view = gang.order->view_of(block.sync_joined);
        for (uint32_t t = 0; t < gang.threads; ++t)
            if (!block.fibers[t].done) gang.order->set_view(block.fibers[t], view);
        gang.order->drop(view);
        block.sync_joined.clear();
        block.first_read_set = gang.order->next_set();
    }
    if (gang.flags & TL_EMU_COUNTERS) flush_counters(block);
    for (uint32_t w = 0; w < gang.warps_per_block; ++w) {
        LaneMask lanes = block.warps[w].live;
        if (me != nullptr && me->warp == &block.warps[w]) lanes &= ~(LaneMask{1} << me->lane);
        make_ready(&block.warps[w], lanes);
    }
}

void sync_block(int line, const void* pc) {
    Fiber* me = current();
    Block& block = *me->block;
    if (block.gang->order) {
        block.gang->order->release(block.sync_joined, *me);
        if (block.sync_pc == nullptr) {
            block.sync_pc = pc;
            block.sync_line = line;
        } else if (block.sync_line != line) {
            finding_by(me, TL_EMU_BARRIER_DIVERGENCE, TL_EMU_NO_SPACE, pc, block.sync_pc, TL_EMU_NONE, nullptr, nullptr,
                       0, "threads of one block meet in different calls of __syncthreads");
        }
    }
    if (++block.arrived < block.live) wait_here("__syncthreads", pc);
    else {
        if (worker->flags & TL_EMU_COUNTERS) count_barrier(pc);
        open_block(block, me);
    }
}

}  // namespace

// -- warps -------------------------------------------------------------------------------------------------------
namespace {

void report_divergence(const Meeting& meeting, const char* what, LaneMask mask, const void* pc) {
    char text[200];
    const int digits = (int)worker->gang->warp_size / 4;
    snprintf(text, sizeof text, "%s of lanes 0x%0*llx meets %s of lanes 0x%0*llx in one warp", what, digits,
             (unsigned long long)mask, meeting.what, digits, (unsigned long long)meeting.mask);
    finding_by(current(), TL_EMU_WARP_DIVERGENCE, TL_EMU_NO_SPACE, pc, meeting.pc, TL_EMU_NONE, nullptr, nullptr, 0, text);
}

// The barrier of the lanes of `mask`. Some lanes may wait in one while others already wait for all of the warp, so that
// masks overlap and may have the same lowest lane; it is wrong only if each of two barriers waits for a lane of the other.
Meeting& meeting_of(Warp& warp, LaneMask mask, LaneMask bit) {
    Meeting& usual = warp.meetings[__builtin_ctzll(mask)];
    if (warp.meeting_count == 0 || (usual.arrived != 0 && usual.mask == mask)) return usual;
    Meeting* free = usual.arrived == 0 ? &usual : nullptr;
    for (Meeting& each : warp.meetings) {
        if (each.arrived == 0) free = free != nullptr ? free : &each;
        else if (each.mask == mask || ((each.mask & bit) != 0 && (each.arrived & mask) != 0)) return each;
    }
    return *free;
}

// The operation continues without lanes that its mask names and that have exited.
void report_absent(const Warp& warp, const Meeting& meeting, LaneMask gone) {
    for (uint32_t lane = 0; lane < warp.block->gang->warp_size; ++lane)
        if ((gone >> lane & 1) != 0 && warp.lane(lane)->left) gone &= ~(LaneMask{1} << lane);
    if (gone == 0) return;
    char text[160];
    snprintf(text, sizeof text, "%s of lanes 0x%0*llx, of which 0x%0*llx have ended without it", meeting.what,
             (int)warp.block->gang->warp_size / 4, (unsigned long long)meeting.mask, (int)warp.block->gang->warp_size / 4,
             (unsigned long long)gone);
    Fiber* here = warp.lane((uint32_t)__builtin_ctzll(meeting.arrived));
    finding_by(here, TL_EMU_WARP_DIVERGENCE, TL_EMU_NO_SPACE, meeting.pc, nullptr, TL_EMU_NONE, nullptr, nullptr, 0, text);
}

// Runs the operation for the lanes that came; those of others are null.
void hold(Warp& warp, Meeting& meeting, Fiber* me) {
    const LaneMask came = meeting.arrived, gone = meeting.mask & warp.all & ~came;
    if (gone != 0 && meeting.masked && warp.block->gang->order) report_absent(warp, meeting, gone);
    ++warp.block->gang->warp_operations;
    meeting.arrived = 0;
    --warp.meeting_count;
    if (meeting.op != nullptr) {
        if (came == ~LaneMask{0} >> (most_lanes - warp.block->gang->warp_size)) {
            meeting.op(warp.lanes, came);
        } else {
            void* lanes[most_lanes];
            for (uint32_t k = 0; k < most_lanes; ++k) lanes[k] = came >> k & 1 ? warp.lanes[k] : nullptr;
            meeting.op(lanes, came);
        }
    }
    make_ready(&warp, me != nullptr && me->warp == &warp ? came & ~(LaneMask{1} << me->lane) : came);
}

// The barrier of lanes that run the call at `pc`, or a free one for the first of them.
Meeting& meeting_at(Warp& warp, const void* pc) {
    Meeting* free = nullptr;
    for (Meeting& each : warp.meetings) {
        if (each.arrived == 0) free = free != nullptr ? free : &each;
        else if (!each.masked && each.pc == pc) return each;
        if (free != nullptr && warp.meeting_count == 0) break;
    }
    return *free;
}

}  // namespace

void in_step(const char* what, void* mine, LaneOp op, const void* pc) {
    Fiber* me = current();
    Warp& warp = *me->warp;
    Meeting& meeting = meeting_at(warp, pc);
    if (meeting.arrived == 0) {
        meeting = {0, 0, what, op, pc, false};
        ++warp.meeting_count;
    }
    warp.lanes[me->lane] = mine;
    meeting.arrived |= LaneMask{1} << me->lane;
    if (meeting.arrived == warp.live) hold(warp, meeting, me);
    else wait_here(what, pc);
}

void meet_without_others(Warp& warp) {
    if (warp.meeting_count == 0 || (warp.ready | warp.polling) != 0) return;
    Meeting* first = nullptr;
    for (Meeting& each : warp.meetings)
        if (each.arrived != 0 && !each.masked && (first == nullptr || each.pc < first->pc)) first = &each;
    if (first != nullptr) hold(warp, *first, nullptr);
}

void collective(const char* what, LaneMask mask, void* mine, LaneOp op, const void* pc) {
    Fiber* me = current();
    Warp& warp = *me->warp;
    const LaneMask bit = LaneMask{1} << me->lane;
    // "All lanes" of a narrower warp.
    mask &= ~LaneMask{0} >> (most_lanes - me->gang->warp_size);
    if ((mask & bit) == 0) {
        char text[160];
        snprintf(text, sizeof text, "lane %u runs %s for the lanes 0x%0*llx, without itself", me->lane, what,
                 (int)me->gang->warp_size / 4, (unsigned long long)mask);
        finding_by(me, TL_EMU_WARP_DIVERGENCE, TL_EMU_NO_SPACE, pc, nullptr, TL_EMU_NONE, nullptr, nullptr, 0, text);
        mask |= bit;
    }
    Meeting& meeting = meeting_of(warp, mask, bit);
    if (meeting.arrived == 0) {
        meeting.mask = mask;
        meeting.what = what;
        meeting.op = op;
        meeting.pc = pc;
        meeting.masked = true;
        ++warp.meeting_count;
    } else if (!meeting.masked || meeting.mask != mask || (meeting.what != what && strcmp(meeting.what, what) != 0)) {
        report_divergence(meeting, what, mask, pc);
        stop();
    }
    warp.lanes[me->lane] = mine;
    meeting.arrived |= bit;
    if (meeting.arrived == (meeting.mask & warp.live)) hold(warp, meeting, me);
    else wait_here(what, pc);
}

void collective_group(const char* what, int warps, void* mine, GroupOp op, const void* pc) {
    Fiber* me = current();
    Block& block = *me->block;
    const uint32_t first = me->linear / (warp_size * warps) * warps;  // warp
    WarpgroupMeeting& meeting = block.warpgroups[first / 4 % (most_threads / (4 * warp_size))];
    if (meeting.arrived == 0) {
        meeting.what = what;
        meeting.pc = pc;
        meeting.warps = warps;
        memset(meeting.lanes, 0, sizeof meeting.lanes);
    } else if (strcmp(meeting.what, what) != 0) {
        char text[160];
        snprintf(text, sizeof text, "%s meets %s in one warpgroup", what, meeting.what);
        finding_by(me, TL_EMU_WARP_DIVERGENCE, TL_EMU_NO_SPACE, pc, meeting.pc, TL_EMU_NONE, nullptr, nullptr, 0, text);
        stop();
    }
    meeting.lanes[me->linear - first * warp_size] = mine;
    if (++meeting.arrived < warps * (int)warp_size) {
        meeting.waiters.add(me);
        wait_here(what, pc);
        return;
    }
    meeting.arrived = 0;
    ++block.gang->warp_operations;
    if (op != nullptr) op(meeting.lanes, warps * (int)warp_size);
    wake(meeting.waiters, me);
}

namespace {

// __syncwarp: what each of the lanes did comes before what they all do now.
void order_lanes(void** lanes, LaneMask came) {
    Order& known = *order();
    Joined joined;
    each_lane(came, [&](uint32_t k) { known.release(joined, *static_cast<Fiber*>(lanes[k])); });
    View* view = known.view_of(joined);
    each_lane(came, [&](uint32_t k) { known.set_view(*static_cast<Fiber*>(lanes[k]), view); });
    known.drop(view);
}

}  // namespace

// -- named barriers ----------------------------------------------------------------------------------------------
namespace {

void named_misuse(Fiber* me, const NamedBarrier& bar, const char* text, const void* pc) {
    finding_by(me, TL_EMU_BARRIER_COUNT, TL_EMU_NO_SPACE, pc, bar.pc, TL_EMU_NONE, nullptr, nullptr, 0, text);
}

void arrive_named(int id, int count, bool waits, const void* pc) {
    Fiber* me = current();
    char text[160];
    if (id < 0 || id >= (int)named_barriers) {
        snprintf(text, sizeof text, "barrier %d: a block has %u of them", id, named_barriers);
        named_misuse(me, me->block->named[0], text, pc);
        stop();
    }
    NamedBarrier& bar = me->block->named[id];
    if (count <= 0 || count % (int)warp_size != 0 || count > (int)most_threads) {
        snprintf(text, sizeof text, "barrier %d: a count of %d threads is not a number of whole warps", id, count);
        named_misuse(me, bar, text, pc);
        if (count <= 0) stop();
    }
    if (bar.arrived == 0) {
        bar.expected = (uint32_t)count;
        bar.pc = pc;
    } else if (bar.expected != (uint32_t)count) {
        snprintf(text, sizeof text, "barrier %d: a count of %d threads while others wait for %u", id, count, bar.expected);
        named_misuse(me, bar, text, pc);
    }
    Order* known = order();
    if (known != nullptr) known->release(bar.joined, *me);
    me->gang->idle_yields = 0;
    if (++bar.arrived < bar.expected) {
        if (!waits) return;
        bar.waiters.add(me);
        wait_here("a named barrier", pc, (const void*)(uintptr_t)id);
        return;
    }
    ++me->gang->barriers;
    if (worker->flags & TL_EMU_COUNTERS) count_barrier(pc);
    bar.arrived = 0;
    if (known != nullptr) pass_on(*known, bar.joined, bar.waiters, waits ? me : nullptr);
    wake(bar.waiters);
}

}  // namespace

// -- over blocks -------------------------------------------------------------------------------------------------
namespace {

void open_wide(WideBarrier& bar, Fiber* me) {
    bar.arrived = 0;
    ++bar.phase;
    ++worker->gang->barriers;
    if (Order* known = order()) {
        // Threads take the view when they wait, which may be later.
        known->drop(bar.completed);
        bar.completed = known->view_of(bar.joined);
        bar.joined.clear();
    }
    wake(bar.waiters, me);
}

// As on the hardware, the grid's barrier counts blocks: one that has ended never arrives.
bool grid_complete(const Gang& gang) {
    if (gang.grid_barrier.arrived == 0 || gang.grid_barrier.arrived != gang.live) return false;
    for (uint32_t k = 0; k < gang.block_count; ++k)
        if (gang.blocks[k].live == 0) return false;
    return true;
}

uint32_t live_in_cluster(const Fiber& fiber) {
    uint32_t live = 0;
    const Block* first = fiber.block->cluster;
    for (uint32_t k = 0; k < fiber.gang->cluster_size; ++k) live += first[k].live;
    return live;
}

}  // namespace

void leave_barriers(Fiber* me) {
    Block& block = *me->block;
    if (block.live > 0 && block.arrived == block.live) open_block(block, nullptr);
    Warp& warp = *me->warp;
    for (uint32_t k = 0; k < most_lanes && warp.meeting_count > 0 && warp.live != 0; ++k) {
        Meeting& meeting = warp.meetings[k];
        if (meeting.arrived != 0 && meeting.masked && meeting.arrived == (meeting.mask & warp.live)) hold(warp, meeting, nullptr);
    }
    meet_without_others(warp);
    Gang& gang = *me->gang;
    if (gang.order) order_end(*me);
    if (gang.cluster_size > 1) {
        WideBarrier& bar = gang.cluster_barriers[block.number / gang.cluster_size];
        const uint32_t live = live_in_cluster(*me);
        if (live > 0 && bar.arrived == live) open_wide(bar, nullptr);
    }
    if (grid_complete(gang)) open_wide(gang.grid_barrier, nullptr);
}

}  // namespace tl_emu

// -- what kernels call -------------------------------------------------------------------------------------------
using namespace tl_emu;

extern "C" {

void tl_emu_sync_block(int line) { sync_block(line, TL_EMU_PC()); }

int tl_emu_sync_block_reduce(int what, int value, int line) {
    Block& block = *current()->block;
    if (block.arrived == 0) block.votes = what == 1;
    if (what == 0) block.votes += value != 0;
    else if (what == 1) block.votes &= value != 0;
    else block.votes |= value != 0;
    sync_block(line, TL_EMU_PC());
    return block.result;
}

void tl_emu_leave(void) { current()->left = true; }

void tl_emu_sync_warp(unsigned long long mask) {
    collective("__syncwarp", mask, current(), order() == nullptr ? nullptr : order_lanes, TL_EMU_PC());
}

// The same for a wave whose lanes run in step.
void tl_emu_sync_wave(void) { in_step("a wave's barrier", current(), order() == nullptr ? nullptr : order_lanes, TL_EMU_PC()); }

void tl_emu_bar_sync(int id, int count) {
    const void* pc = TL_EMU_PC();
    pause_at_random();
    arrive_named(id, count, true, pc);
}
void tl_emu_bar_arrive(int id, int count) {
    const void* pc = TL_EMU_PC();
    pause_at_random();
    arrive_named(id, count, false, pc);
}

// All lanes are counted when they arrive and when they exit; a cluster's barrier is over when as many have arrived
// as are alive.
void tl_emu_cluster_arrive(int relaxed) {
    Fiber* me = current();
    Gang& gang = *me->gang;
    WideBarrier& bar = gang.cluster_barriers[me->block->number / gang.cluster_size];
    if (gang.cluster_arrived[me->id] != 0)
        finding_by(me, TL_EMU_BARRIER_DIVERGENCE, TL_EMU_NO_SPACE, TL_EMU_PC(), nullptr, TL_EMU_NONE, nullptr, nullptr, 0,
                   "the thread arrives at the cluster's barrier again without having waited");
    if (gang.order && !relaxed) gang.order->release(bar.joined, *me);
    gang.cluster_arrived[me->id] = (uint8_t)(1 + (bar.phase & 1));
    gang.idle_yields = 0;
    if (++bar.arrived == live_in_cluster(*me)) open_wide(bar, me);
}

void tl_emu_cluster_wait(void) {
    Fiber* me = current();
    Gang& gang = *me->gang;
    WideBarrier& bar = gang.cluster_barriers[me->block->number / gang.cluster_size];
    const uint8_t mark = gang.cluster_arrived[me->id];
    if (mark == 0) {
        finding_by(me, TL_EMU_BARRIER_DIVERGENCE, TL_EMU_NO_SPACE, TL_EMU_PC(), nullptr, TL_EMU_NONE, nullptr, nullptr, 0,
                   "the thread waits at the cluster's barrier without having arrived");
        return;
    }
    // No thread can be two phases ahead: the next one needs this thread's arrival.
    while (mark == 1 + (bar.phase & 1)) {
        bar.waiters.add(me);
        wait_here("the cluster's barrier", TL_EMU_PC());
    }
    gang.cluster_arrived[me->id] = 0;
    if (gang.order) gang.order->acquire(*me, bar.completed);
}

int tl_emu_cluster_rank(void) { return (int)current()->block->rank; }

void tl_emu_sync_grid(void) {
    Fiber* me = current();
    Gang& gang = *me->gang;
    WideBarrier& bar = gang.grid_barrier;
    const void* pc = TL_EMU_PC();
    if (gang.launch->gang_count > 1) {
        finding_by(me, TL_EMU_LAUNCH, TL_EMU_NO_SPACE, pc, nullptr, TL_EMU_NONE, nullptr, nullptr, 0,
                   "the grid's barrier needs a cooperative launch");
        stop();
    }
    if (gang.order) gang.order->release(bar.joined, *me);
    ++bar.arrived;
    if (grid_complete(gang)) {
        open_wide(bar, me);
    } else {
        bar.waiters.add(me);
        wait_here("the grid's barrier", pc);
    }
    if (gang.order) gang.order->acquire(*me, bar.completed);
}

}  // extern "C"
