// Which fiber runs next, and running the blocks of a gang to their end.
//
// Ready lanes are kept as masks of their warps, and warps in a ring: to wake a warp is one operation, and its lanes
// run one after the other, so that an operation of the warp touches its stacks and not those of the whole block.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "async.h"
#include "checks.h"
#include "shadow.h"
#include "state.h"

namespace tl_emu {

// Said again, since compilers take the model of the last declaration.
thread_local constinit Worker* worker __attribute__((tls_model("initial-exec"))) = nullptr;

uint32_t random_below(Gang& gang, uint32_t count) {
    // SplitMix64: any seed is good.
    uint64_t z = gang.random += 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return (uint32_t)(((z ^ z >> 31) >> 32) * count >> 32);
}

// -- the ring of warps -------------------------------------------------------------------------------------------
namespace {

Warp*& slot(Gang& gang, size_t at) { return gang.queue[(gang.head + at) & gang.queue_mask]; }

void enqueue(Warp* warp) {
    Gang& gang = *warp->block->gang;
    warp->queued = true;
    slot(gang, gang.queued++) = warp;
}

// The warp that runs before all others becomes the last one to run.
void rotate(Gang& gang) {
    Warp* first = slot(gang, 0);
    slot(gang, gang.queued) = first;
    ++gang.head;
}

uint32_t pick_lane(Gang& gang, LaneMask ready) {
    if (gang.schedule == TL_EMU_FIFO) return (uint32_t)__builtin_ctzll(ready);
    if (gang.schedule != TL_EMU_RANDOM) return 63u - (uint32_t)__builtin_clzll(ready);
    for (uint32_t skip = random_below(gang, (uint32_t)__builtin_popcountll(ready)); skip > 0; --skip) ready &= ready - 1;
    return (uint32_t)__builtin_ctzll(ready);
}

Fiber* next_ready(Gang& gang) {
    if (gang.schedule == TL_EMU_RANDOM) {
        do_random_work(gang);
        if (gang.queued > 1 && random_below(gang, 8) == 0)
            std::swap(slot(gang, 0), slot(gang, random_below(gang, (uint32_t)gang.queued)));
    }
    for (;;) {
        if (gang.queued == 0) {
            if (!do_some_work(gang)) return nullptr;
            continue;
        }
        Warp* warp = slot(gang, 0);
        if (warp->ready == 0 && warp->polling != 0) {
            // All its lanes had their turn: other warps come first.
            warp->ready = warp->polling;
            warp->polling = 0;
            if (gang.queued > 1) rotate(gang);
            continue;
        }
        if (warp->ready == 0) {
            warp->queued = false;
            ++gang.head;
            --gang.queued;
            continue;
        }
        const uint32_t lane = pick_lane(gang, warp->ready);
        warp->ready &= ~(LaneMask{1} << lane);
        return warp->lane(lane);
    }
}

void run(Fiber* from, Fiber* to) {
    Gang& gang = *to->gang;
    if (from != nullptr && !from->held_stores.empty()) settle_stores(*from);
    worker->current = to;
    if (++gang.switches > gang.step_bound && !gang.stopped) {
        finding_by(to, TL_EMU_STEP_BOUND, TL_EMU_NO_SPACE, to->wait_pc, nullptr, TL_EMU_NONE, nullptr, nullptr, 0,
                   "the blocks took more steps than the bound allows");
        gang.stopped = true;
        switch_context(from != nullptr ? from->context : gang.main, gang.main);
        return;
    }
    switch_context(from != nullptr ? from->context : gang.main, to->context);
}

[[noreturn]] void exit_fiber(Fiber* me) {
    Gang& gang = *me->gang;
    settle_stores(*me);
    me->done = true;
    me->warp->live &= ~(LaneMask{1} << me->lane);
    --me->block->live;
    --gang.live;
    gang.idle_yields = 0;
    leave_barriers(me);
    Fiber* next = next_ready(gang);
    if (next != nullptr) run(me, next);
    switch_context(me->context, gang.main);
    abort();  // a fiber that has ended never resumes
}

void start_fiber() {
    const TlEmuLaunch& request = worker->launch->request;
    request.entry(request.params);
    exit_fiber(worker->current);
}

}  // namespace

void make_ready(Warp* warp, LaneMask lanes) {
    warp->ready |= lanes;
    if (!warp->queued && (warp->ready | warp->polling) != 0) enqueue(warp);
}

void make_ready(Fiber* fiber) { make_ready(fiber->warp, LaneMask{1} << fiber->lane); }

void wake(Waiters& waiters, Fiber* but) {
    for (Fiber* fiber = waiters.first; fiber != nullptr; fiber = fiber->next_waiter)
        if (fiber != but) make_ready(fiber);
    waiters = {};
}

void wait_here(const char* what, const void* pc, const void* object) {
    Fiber* me = current();
    Gang& gang = *me->gang;
    me->waiting = what;
    me->wait_pc = pc;
    me->wait_object = object;
    me->wait_began = gang.switches;
    gang.idle_yields = 0;
    meet_without_others(*me->warp);
    Fiber* next = next_ready(gang);
    if (next == nullptr) {
        settle_stores(*me);
        switch_context(me->context, gang.main);  // deadlock
    }
    else if (next != me) run(me, next);
    if (worker->flags & TL_EMU_EVENTS) note_wait(*me);
    me->waiting = "";
}

// -- threads that poll -------------------------------------------------------------------------------------------
namespace {

// A thread's registers and stack, from where it called the runtime to what called the kernel.
__attribute__((noinline)) uint64_t state_of(const Fiber& me, const char* low) {
    const char* top = me.gang->worker->stacks.top(me.id);
    uint64_t h = (uint64_t)(top - low);
    for (uint64_t word; low + sizeof word <= top; low += sizeof word) {
        memcpy(&word, low, sizeof word);
        h = (h ^ word) * 0x9E3779B97F4A7C15ull;
        h ^= h >> 32;
    }
    return h;
}

// How often all threads of a gang give way before it counts as one that only polls.
uint64_t patience(const Gang& gang) { return 1024 + 64 * (uint64_t)gang.live; }

void give_way(const void* pc) {
    Fiber* me = current();
    Gang& gang = *me->gang;
    // Whoever polls waits for others or for asynchronous work: let all of them go first.
    if (gang.schedule != TL_EMU_LATE || gang.idle_yields > 4 * (uint64_t)gang.live) do_some_work(gang);
    ++gang.idle_yields;
    ++gang.slice_yields;
    me->waiting = "a loop that polls";
    me->wait_pc = pc;
    me->warp->polling |= LaneMask{1} << me->lane;
    make_ready(me->warp, 0);
    if (only_polls(gang) || gang.slice_yields > 64 * patience(gang)) {
        settle_stores(*me);
        gang.polling = next_ready(gang);
        switch_context(me->context, gang.main);  // other gangs have their turn
    } else {
        Fiber* next = next_ready(gang);
        if (next != me) run(me, next);
    }
    me->waiting = "";
}

}  // namespace

bool only_polls(const Gang& gang) { return gang.still_yields > patience(gang); }

// A thread that comes back with the same registers and stack has learned nothing since; another one has, if only that it
// has tried once more. Where all threads of a gang come back so, nothing can change but by others.
__attribute__((noinline)) void yield(const void* pc) {
    __builtin_unwind_init();  // the registers of the caller are on the stack now
    const char* low;
#if defined(__x86_64__)
    asm volatile("mov %%rsp, %0" : "=r"(low));
#elif defined(__aarch64__)
    asm volatile("mov %0, sp" : "=r"(low));
#else
    low = (const char*)&low;
#endif
    Fiber* me = current();
    Gang& gang = *me->gang;
    const uint64_t before = me->polled_in;
    if (gang.idle_yields > patience(gang)) me->polled_in = state_of(*me, low);
    gang.still_yields = gang.idle_yields > patience(gang) && me->polled_in == before ? gang.still_yields + 1 : 0;
    give_way(pc);
}

void note_progress() { current()->gang->idle_yields = 0; }

void pause_at_random() {
    Fiber* me = current();
    Gang& gang = *me->gang;
    if (gang.schedule != TL_EMU_RANDOM || random_below(gang, 4) != 0) return;
    // One thread at a time is held up until no other one can continue, unless one polls.
    const bool held_up = !gang.held_up && random_below(gang, 2) == 0;
    if (held_up) gang.held_up = true;
    for (uint32_t turns = held_up ? 512 : 1 + random_below(gang, 4); turns > 0; --turns) {
        if (held_up && gang.queued <= 1 && !do_some_work(gang)) break;
        gang.idle_yields = 0;  // a thread that polls for what this one does polls in vain, but not forever
        me->warp->polling |= LaneMask{1} << me->lane;
        make_ready(me->warp, 0);
        Fiber* next = next_ready(gang);
        if (next != me) run(me, next);
    }
    if (held_up) gang.held_up = false;
}

void stop() {
    Fiber* me = current();
    settle_stores(*me);
    me->gang->stopped = true;
    switch_context(me->context, me->gang->main);
    abort();
}

Thread* self() { return worker->current; }
bool checking(uint32_t flags) { return (worker->flags & flags) != 0; }

// Gangs count clusters, x fastest; inside a cluster ranks do.
Uint3 block_index(const Launch& launch, uint64_t gang, uint32_t block) {
    const uint32_t *grid = launch.request.grid, *cluster = launch.request.cluster;
    const uint32_t wide = grid[0] / cluster[0], high = grid[1] / cluster[1], rank = block % launch.cluster_blocks;
    const uint64_t number = gang * (launch.gang_blocks / launch.cluster_blocks) + block / launch.cluster_blocks;
    return {(uint32_t)(number % wide) * cluster[0] + rank % cluster[0],
            (uint32_t)(number / wide % high) * cluster[1] + rank / cluster[0] % cluster[1],
            (uint32_t)(number / wide / high) * cluster[2] + rank / cluster[0] / cluster[1]};
}

// -- a gang ------------------------------------------------------------------------------------------------------
namespace {

void place_blocks(Gang& gang, const Launch& launch) {
    for (uint32_t k = 0; k < gang.block_count; ++k) {
        Block& block = gang.blocks[k];
        const uint32_t rank = k % launch.cluster_blocks;
        block.gang = &gang;
        block.number = k;
        block.rank = rank;
        block.cluster = &gang.blocks[k - rank];
        block.index = block_index(launch, gang.number, k);
        block.arena = gang.worker->arena + (size_t)k * arena_stride + arena_lead;
        block.live = gang.threads;
        block.fibers = &gang.fibers[(size_t)k * gang.threads];
        block.warps = std::make_unique<Warp[]>(gang.warps_per_block);
    }
}

void place_threads(Gang& gang, const TlEmuLaunch& request, Block& block) {
    const uint32_t* extent = request.block;
    for (uint32_t t = 0; t < gang.threads; ++t) {
        Fiber& fiber = block.fibers[t];
        fiber.tid = {t % extent[0], t / extent[0] % extent[1], t / extent[0] / extent[1]};
        fiber.bid = block.index;
        fiber.bdim = {extent[0], extent[1], extent[2]};
        fiber.gdim = {request.grid[0], request.grid[1], request.grid[2]};
        fiber.linear = t;
        fiber.lane = t % gang.warp_size;
        fiber.id = block.number * gang.threads + t;
        fiber.warp = &block.warps[t / gang.warp_size];
        fiber.block = &block;
        fiber.gang = &gang;
        const Stacks& stacks = gang.worker->stacks;
        make_context(fiber.context, stacks.low(fiber.id), stacks.top(fiber.id), start_fiber);
    }
    for (uint32_t w = 0; w < gang.warps_per_block; ++w) {
        Warp& warp = block.warps[w];
        warp.block = &block;
        warp.fibers = block.fibers + w * gang.warp_size;
        warp.number = w;
        const uint32_t lanes = std::min(gang.threads - w * gang.warp_size, gang.warp_size);
        warp.all = warp.live = warp.ready = ~LaneMask{0} >> (most_lanes - lanes);
    }
}

// The order in which warps begin: as numbered, backwards for the adversary.
void queue_all(Gang& gang) {
    const uint32_t count = gang.block_count * gang.warps_per_block;
    gang.queue.resize(std::bit_ceil(count + 1));
    gang.queue_mask = gang.queue.size() - 1;
    for (uint32_t k = 0; k < count; ++k) {
        const bool backwards = gang.schedule == TL_EMU_LATE || gang.schedule == TL_EMU_EARLY;
        const uint32_t at = backwards ? count - 1 - k : k;
        enqueue(&gang.blocks[at / gang.warps_per_block].warps[at % gang.warps_per_block]);
    }
}

}  // namespace

void end_gang(Gang& gang, Launch& launch) {
    if (!gang.stopped && gang.live > 0) {
        report_deadlock(gang);
        gang.stopped = true;
    }
    if (!gang.stopped) finish_work(gang);
    Worker& own = *gang.worker;
    if (own.flags != 0) end_checks(gang, launch);
    TlEmuReport& report = *launch.report;
    __atomic_fetch_add(&report.blocks, gang.block_count, __ATOMIC_RELAXED);
    __atomic_fetch_add(&report.switches, gang.switches, __ATOMIC_RELAXED);
    __atomic_fetch_add(&report.barriers, gang.barriers, __ATOMIC_RELAXED);
    __atomic_fetch_add(&report.warp_operations, gang.warp_operations, __ATOMIC_RELAXED);
    __atomic_fetch_add(&report.async_operations, gang.async_operations, __ATOMIC_RELAXED);
    if (gang.stopped) __atomic_store_n(&report.reserved, 1u, __ATOMIC_RELAXED);
    own.current = nullptr;
    own.gang = nullptr;
}

std::unique_ptr<Gang> make_gang(Worker& own, Launch& launch, uint64_t number) {
    auto made = std::make_unique<Gang>();
    Gang& gang = *made;
    const TlEmuLaunch& request = launch.request;
    gang.worker = &own;
    gang.launch = &launch;
    gang.number = (uint32_t)number;
    gang.flags = request.flags;
    gang.threads = launch.threads;
    gang.warp_size = launch.warp_size;
    gang.warps_per_block = (launch.threads + gang.warp_size - 1) / gang.warp_size;
    gang.block_count = launch.gang_blocks;
    gang.cluster_size = launch.cluster_blocks;
    gang.live = gang.threads * gang.block_count;
    gang.blocks = std::make_unique<Block[]>(gang.block_count);
    gang.fibers = std::make_unique<Fiber[]>(gang.live);
    gang.cluster_barriers.resize(gang.block_count / gang.cluster_size);
    gang.cluster_arrived.assign(gang.live, 0);
    gang.async = std::make_unique<AsyncUnit>();
    gang.schedule = request.schedule;
    gang.random = request.seed * 0x2545F4914F6CDD1Dull + number;
    gang.step_bound = request.step_bound != 0 ? request.step_bound : 1ull << 33;
    own.gang = &gang;
    own.launch = &launch;
    place_blocks(gang, launch);
    for (uint32_t k = 0; k < gang.block_count; ++k) {
        place_threads(gang, request, gang.blocks[k]);
        // Not-a-numbers, so that what is used before it is written shows in the result.
        const size_t used = own.static_high > 0 ? launch.static_at + own.static_high : request.dynamic_shared;
        memset(gang.blocks[k].arena, 0xff, used);
    }
    queue_all(gang);
    if (own.flags != 0) begin_checks(gang);
    gang.polling = next_ready(gang);
    return made;
}

bool go_on(Gang& gang) {
    gang.slice_yields = gang.still_yields = 0;
    Fiber* next = gang.polling;
    gang.polling = nullptr;
    if (next != nullptr) run(nullptr, next);
    return gang.polling != nullptr;
}
}  // namespace tl_emu
