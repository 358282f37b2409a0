// Asynchronous work of a gang: what has been handed over and not done, and the groups that threads wait for.
#ifndef TL_EMU_ASYNC_H
#define TL_EMU_ASYNC_H
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "order.h"
#include "tl_emu.h"

namespace tl_emu {

// A barrier in shared memory.
struct Mbarrier {
    uint32_t expected = 0, pending = 0;
    int64_t bytes = 0;  // still to come
    uint64_t phase = 0;  // completed phases
    Joined gathering;        // of the current phase
    View* completed = nullptr;  // of the last one
    std::vector<Fiber*> waiters;
    const void* pc = nullptr;
    // Who initialised it, and when: all uses must come after.
    uint32_t maker = 0, made = 0;
    bool visible = false;  // to asynchronous operations: its maker has fenced since
};

struct Task {
    Work work;
    Fiber* issuer;
    Block* block;
    uint32_t reader = 0, writer = 0;  // its clocks' owners
    uint32_t read_clock = 0, write_clock = 0;
    std::vector<void*> plain_arrivals;  // mbarriers that it arrives at, besides the bytes it brings
    uint64_t began = 0;
    bool done = false;
};

// Groups of one thread (bulk) or warpgroup (matrix), oldest first.
struct GroupQueue {
    std::vector<std::shared_ptr<Task>> open;
    std::deque<std::vector<std::shared_ptr<Task>>> committed;
    uint32_t first = 0;  // number of groups that are complete
    uint32_t agent_read = 0, agent_write = 0;
    uint32_t count() const { return first + (uint32_t)committed.size(); }
};

struct AsyncUnit {
    std::deque<std::shared_ptr<Task>> pending;
    std::unordered_map<const void*, Mbarrier> mbarriers;
    std::unordered_map<uint64_t, GroupQueue> groups;
    std::unordered_map<uint32_t, uint32_t> clocks;  // of agents
};

// The unit that has a clock of its own for `key` in the block.
uint32_t agent_for(Block& block, uint64_t key);
std::shared_ptr<Task> submit_task(Work&& work);  // as submit()
bool do_some_work(Gang& gang);  // one task; false when there is none
void do_random_work(Gang& gang);
void finish_work(Gang& gang);   // at the end: work without a wait
Mbarrier* find_mbarrier(const void* bar);
void check_made(const Mbarrier& state, const void* bar, const void* pc);  // before its use by the current thread
void finish_phase(Mbarrier& bar);
void move_copies(Fiber& fiber, size_t count);
}  // namespace tl_emu
#endif
