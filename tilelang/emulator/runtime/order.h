// What happened before what: vector clocks over the threads of a gang and the asynchronous units of its blocks.
//
// A thread knows of every other a clock up to which that one's accesses are ordered before its own. After a
// barrier all its threads know the same, so what is known is a shared immutable View, and a thread has besides it
// only its own clock. A View has a second vector: up to where a thread's generic stores are also ordered before
// asynchronous accesses, by fence.proxy.async.
#ifndef TL_EMU_ORDER_H
#define TL_EMU_ORDER_H
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace tl_emu {

struct Fiber;

// What is known of threads of other gangs: for each of these, sorted by number, clocks of all its threads. Shared and
// never changed, so that blocks that wait for each other in a row hold their common part once.
struct KnownGang {
    uint32_t gang;
    std::shared_ptr<const std::vector<uint32_t>> clocks;
};
using Foreign = std::shared_ptr<const std::vector<KnownGang>>;
Foreign joined(const Foreign& a, const Foreign& b);
// `a` with one gang more, or more of it.
Foreign joined(const Foreign& a, uint32_t gang, const uint32_t* clocks, uint32_t count);
const std::vector<uint32_t>* clocks_of(const Foreign& foreign, uint32_t gang);  // null: nothing is known of it

struct View {
    uint64_t serial;  // no two views of a gang have the same
    uint32_t references;
    bool any_fenced;
    uint32_t* known;
    uint32_t* fenced;
    Foreign foreign;
};

// Knowledge that gathers at a barrier until it completes.
struct Joined {
    std::vector<uint32_t> known, fenced;
    uint64_t last = 0;  // serial of the view that was joined last
    bool any = false, any_fenced = false;
    Foreign foreign;
    void clear();
};

// Who has read a place since its last write. Sets are interned: neighbouring places have the same readers.
// Atomic accesses count as reads: they conflict with plain writes, and with plain reads too.
struct Reader {
    uint32_t id, clock;
    int32_t site;
    bool atomic;
};
struct ReadCache {  // a fiber's last steps from one set to the next
    uint32_t from[4] = {}, to[4] = {}, clock[4] = {};
    int32_t site[4] = {};
    bool atomic[4] = {};
};

class Order {
public:
    Order(uint32_t blocks, uint32_t block_threads, uint32_t block_agents);
    uint32_t size() const { return size_; }
    uint32_t threads() const { return threads_; }

    // -- views
    View* create();  // knows nothing; one reference
    void take(View* view) { ++view->references; }
    void drop(View* view);
    void set_view(Fiber& fiber, View* view);  // the fiber takes a reference of its own
    bool known(const Fiber& fiber, uint32_t id, uint32_t clock) const;
    bool fenced(const Fiber& fiber, uint32_t id, uint32_t clock) const;

    // -- barriers
    void release(Joined& joined, Fiber& fiber);               // adds the fiber's knowledge and advances its clock
    void release(Joined& joined, uint32_t agent, uint32_t clock);  // an asynchronous unit has done that much
    View* view_of(const Joined& joined);                      // one reference
    void acquire(Fiber& fiber, View* view);                   // what it knew and what `view` knows
    void acquire(Fiber& fiber, const Joined& joined);
    void learn(Fiber& fiber, uint32_t agent, uint32_t clock);
    // Through a flag in global memory: what `fiber`, of the gang of that number, knows joins; it knows that too.
    void release(Foreign& flag, Fiber& fiber, uint32_t gang);
    void acquire(Fiber& fiber, const Foreign& flag, uint32_t gang);
    void fence_proxy(Fiber& fiber);

    // -- readers
    // The set `from` (0: empty) with one more reader, without those that `pruner`, if any, knows to be complete.
    uint32_t with_reader(uint32_t from, const Fiber* pruner, Reader reader);
    uint32_t with_reader(uint32_t from, Fiber& reader, int32_t site, bool atomic);
    bool any_atomic(uint32_t set) const { return set >= base_ && sets_[set - base_].any_atomic; }
    const Reader* readers(uint32_t set, uint32_t& count) const;
    uint32_t next_set() const { return base_ + (uint32_t)sets_.size(); }
    // Whether a set says nothing to threads of `block`: all its readers are of that block and met its other threads
    // at a barrier since; sets from `fresh` on are younger than that barrier.
    bool stale(uint32_t set, uint32_t block, uint32_t fresh) const {
        return set < base_ || (set < fresh && sets_[set - base_].block == block);
    }

private:
    struct Set {
        uint32_t first, count;
        uint32_t block;  // of all readers, or `several`
        bool any_atomic;
    };
    static constexpr uint32_t several = 0xffffffffu;
    uint32_t block_of(uint32_t id) const { return id < threads_ ? id / block_threads_ : several; }
    uint32_t size_, threads_, block_threads_;
    uint64_t serial_ = 0;
    std::vector<View*> free_;
    std::vector<std::unique_ptr<uint32_t[]>> storage_;
    std::vector<std::unique_ptr<View>> views_;
    // The same two views joined again, as by all threads that wait for one barrier, give the same view.
    uint64_t last_a_ = 0, last_b_ = 0;
    View* last_result_ = nullptr;
    uint32_t base_ = 1;
    std::vector<Set> sets_;
    std::vector<Reader> pool_;
    struct Step {
        uint32_t from;
        Reader reader;
        uint32_t to;
    };
    void remember(const Step& step);
    const Step* find(uint32_t from, const Reader& reader) const;
    std::vector<Step> steps_;  // open addressing; to == 0: empty
    size_t step_count_ = 0;
};
}  // namespace tl_emu
#endif
