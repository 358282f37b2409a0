// Barriers in shared memory. Their state is kept outside of it, by address: how the hardware encodes it in the eight
// bytes is not defined.
#include "async.h"
#include "checks.h"
#include "state.h"

namespace tl_emu {

namespace {

constexpr size_t barrier_bytes = 8;

Mbarrier& state_of(void* bar, const void* pc) {
    AsyncUnit& unit = *worker->gang->async;
    auto found = unit.mbarriers.find(canonical(bar));
    if (found == unit.mbarriers.end()) {
        finding(TL_EMU_MBARRIER_MISUSE, TL_EMU_SHARED, pc, bar, barrier_bytes, "the mbarrier has not been initialised");
        stop();
    }
    check_made(found->second, bar, pc);
    return found->second;
}

void complete_if_due(Mbarrier& state) {
    if (state.pending == 0 && state.bytes == 0) finish_phase(state);
}

}  // namespace

Mbarrier* find_mbarrier(const void* bar) {
    AsyncUnit& unit = *worker->gang->async;
    auto found = unit.mbarriers.find(canonical(bar));
    return found == unit.mbarriers.end() ? nullptr : &found->second;
}

void check_made(const Mbarrier& state, const void* bar, const void* pc) {
    Fiber* me = current();
    const Order* known = order();
    if (known == nullptr || known->known(*me, state.maker, state.made)) return;
    const Gang& gang = *me->gang;
    finding_by(me, TL_EMU_RACE_WRITE_READ, TL_EMU_SHARED, pc, state.pc, state.maker % gang.threads,
               &gang.blocks[state.maker / gang.threads].index, bar, barrier_bytes,
               "a use of an mbarrier that is not ordered after its initialisation by another thread");
}

void finish_phase(Mbarrier& state) {
    ++state.phase;
    state.pending = state.expected;
    ++worker->gang->barriers;
    if (Order* known = order()) {
        known->drop(state.completed);
        state.completed = known->view_of(state.gathering);
        state.gathering.clear();
    }
    for (Fiber* fiber : state.waiters) make_ready(fiber);
    state.waiters.clear();
}

void mbarrier_init(void* bar, uint32_t count, const void* pc) {
    if (worker->flags != 0 && !observe(current(), bar, barrier_bytes, TL_EMU_WRITE, pc, barrier_bytes, false)) stop();
    if (count == 0 || count >= 1u << 20)
        finding(TL_EMU_MBARRIER_MISUSE, TL_EMU_SHARED, pc, bar, barrier_bytes, "an mbarrier cannot expect %u arrivals", count);
    Mbarrier& state = worker->gang->async->mbarriers[canonical(bar)];
    if (Order* known = order()) known->drop(state.completed);
    state = Mbarrier();
    state.expected = state.pending = count;
    state.pc = pc;
    state.maker = current()->id;
    state.made = current()->clock;
}

void mbarrier_arrive(void* bar, uint32_t count, const void* pc) {
    Mbarrier& state = state_of(bar, pc);
    if (Order* known = order()) known->release(state.gathering, *current());
    worker->gang->idle_yields = 0;
    if (state.pending < count) {
        finding(TL_EMU_MBARRIER_MISUSE, TL_EMU_SHARED, pc, bar, barrier_bytes,
                "more arrivals in one phase than the %u that the mbarrier expects", state.expected);
        state.pending = 0;
    } else {
        state.pending -= count;
    }
    complete_if_due(state);
}

void mbarrier_expect(void* bar, uint32_t bytes, const void* pc) {
    state_of(bar, pc).bytes += bytes;
}

bool mbarrier_done(void* bar, uint32_t parity, const void* pc) {
    Mbarrier& state = state_of(bar, pc);
    if ((state.phase & 1) == (parity & 1)) return false;
    Order* known = order();
    if (known != nullptr && state.completed != nullptr) known->acquire(*current(), state.completed);
    return true;
}

void mbarrier_wait(void* bar, uint32_t parity, const void* pc) {
    pause_at_random();
    while (!mbarrier_done(bar, parity, pc)) {
        state_of(bar, pc).waiters.push_back(current());
        wait_here("an mbarrier", pc, bar);
    }
}
}  // namespace tl_emu

using namespace tl_emu;

extern "C" {

void tl_emu_mbarrier_init(void* bar, unsigned count) { mbarrier_init(bar, count, TL_EMU_PC()); }
void tl_emu_mbarrier_arrive(void* bar) {
    const void* pc = TL_EMU_PC();
    pause_at_random();
    mbarrier_arrive(bar, 1, pc);
}
void tl_emu_mbarrier_arrive_remote(void* bar, unsigned rank) {
    const void* pc = TL_EMU_PC();
    pause_at_random();
    if (void* there = map_shared(bar, rank)) mbarrier_arrive(there, 1, pc);
}
void tl_emu_mbarrier_expect_tx(void* bar, unsigned bytes) { mbarrier_expect(bar, bytes, TL_EMU_PC()); }
void tl_emu_mbarrier_arrive_expect_tx(void* bar, unsigned bytes) {
    const void* pc = TL_EMU_PC();
    pause_at_random();
    mbarrier_expect(bar, bytes, pc);
    mbarrier_arrive(bar, 1, pc);
}
int tl_emu_mbarrier_try_wait(void* bar, unsigned parity) {
    const void* pc = TL_EMU_PC();
    if (mbarrier_done(bar, parity, pc)) return 1;
    yield(pc);
    return mbarrier_done(bar, parity, pc);
}
void tl_emu_mbarrier_wait(void* bar, unsigned parity) { mbarrier_wait(bar, parity, TL_EMU_PC()); }
void tl_emu_fence_proxy_async(void) { fence_proxy_async(); }

}  // extern "C"
