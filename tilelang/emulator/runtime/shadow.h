// The record of accesses to memory (shadow memory).
#ifndef TL_EMU_SHADOW_H
#define TL_EMU_SHADOW_H
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "state.h"

namespace tl_emu {

// The last write of two bytes, and who has read them since.
struct Cell {
    uint64_t write;      // clock of the writer, its id << 32, flags; 0: not written yet
    int32_t write_site;  // code address, from the launch's anchor
    uint32_t readers;    // a set of Order; in split cells, where the two single bytes are
};
constexpr uint64_t cell_pending = 1ull << 56;  // cp.async that has not been waited for
constexpr uint64_t cell_async = 1ull << 57;    // through the async proxy
constexpr uint64_t cell_split = 1ull << 58;    // the bytes differ: see `readers`
constexpr uint64_t cell_unset = 1ull << 59;    // shared memory only: what was moved here, nothing had written
constexpr uint64_t cell_begun = 1ull << 60;    // shared memory only: parts of the byte are stored one by one
inline bool cell_written(uint64_t write) { return (write & 0x00ffffffffffffffull) != 0; }
inline uint32_t cell_clock(uint64_t write) { return (uint32_t)write; }
inline uint32_t cell_owner(uint64_t write) { return (uint32_t)(write >> 32) & 0xffffffu; }
inline uint64_t cell_write(uint32_t owner, uint32_t clock, uint64_t flags) {
    return (uint64_t)clock | (uint64_t)owner << 32 | flags;
}

// Who accesses, in the terms of a cell. `fiber` is the thread itself, or the one that issued asynchronous work.
struct Accessor {
    Fiber& fiber;
    uint32_t id, clock;
    uint64_t flags;  // cell_async or none
    TlEmuAccess access;
    const void* pc;
    int32_t site;
    uint32_t block;  // in the gang
    bool is_thread() const { return (flags & cell_async) == 0; }
};
Accessor accessor_of(Fiber& fiber, TlEmuAccess access, const void* pc);

// What is wrong with an access.
struct Conflict {
    TlEmuKind kind = TL_EMU_OTHER;
    uint32_t owner = 0;
    int32_t site = 0;
    const char* text = nullptr;  // null: nothing is wrong
    uint32_t gang = 0;           // of the owner, + 1; 0: the one that runs
    bool stores = false;         // both are plain stores, which may be of equal values
};
Conflict write_conflict(const Order& order, const Accessor& who, uint64_t write, int32_t site);
Conflict reader_conflict(const Order& order, const Accessor& who, uint32_t readers);
uint32_t with_reader(Order& order, const Accessor& who, uint32_t readers);
// What was held back of `fiber` until its store was made; before anything else runs.
void settle_stores(Fiber& fiber);
void report_conflict(const Accessor& who, const Conflict& conflict, TlEmuSpace space, const void* p, size_t bytes);

class SharedShadow {
public:
    ~SharedShadow();
    bool reset(size_t blocks);  // nothing has been accessed in the memory of these blocks
    Cell* cells(uint32_t block) { return cells_ + (size_t)block * (arena_room / 2); }
    void use(uint32_t block, size_t end) {
        if (high_[block] < end) high_[block] = end;
    }
    size_t used(uint32_t block) const { return high_[block]; }
    std::vector<Cell> singles;  // pairs, for split cells

private:
    Cell* cells_ = nullptr;
    size_t capacity_ = 0;       // blocks
    std::vector<size_t> high_;  // cells below are in use
};

// The same for global memory, where gangs are ordered by flags alone.
struct GlobalCell {
    uint64_t write;
    int32_t write_site;
    uint32_t readers;      // of one gang, by its own Order
    uint32_t gang;         // that one, + 1
    uint32_t write_gang;   // of the writer
    uint32_t witnesses;    // readers of all gangs, by Witnesses
};

// Who, of any gang, has read a place of global memory since its last write, or used it atomically: of each gang and in
// all no more than some. Sets are interned as those of Order are.
struct Witness {
    uint32_t gang, id, clock;
    int32_t site;
    bool atomic;
    bool operator==(const Witness&) const = default;
};
class Witnesses {
public:
    struct Set {
        std::vector<Witness> all;
        bool any_atomic = false;
    };
    // The set `from` (0: empty) with one more, without those of its kind that come before it.
    uint32_t with(uint32_t from, const Witness& who, const Fiber& fiber);
    const Set& at(uint32_t set) const { return set < base_ ? none_ : sets_[set - base_]; }

private:
    struct Step {
        uint32_t from = 0, to = 0;
        Witness who{};
    };
    struct Hash {
        size_t operator()(const Step& step) const;
    };
    struct Same {
        bool operator()(const Step& a, const Step& b) const { return a.from == b.from && a.who == b.who; }
    };
    uint32_t added(uint32_t from, const Witness& who, const Fiber& fiber);
    Set none_;
    uint32_t base_ = 1;
    size_t size_ = 0;  // of all sets
    std::vector<Set> sets_;
    std::unordered_set<Step, Hash, Same> steps_;
    Step last_[8];
};

class GlobalShadow {
public:
    explicit GlobalShadow(const TlEmuLaunch& request);
    ~GlobalShadow();
    GlobalCell* cells(const TlEmuBuffer& buffer);
    std::unordered_map<const void*, Foreign> flags;  // what was released through atomic variables
    Witnesses witnesses;
    // The last set that a thread knew to be over: its view, the set, the access.
    uint64_t ordered[3] = {};
    std::vector<GlobalCell> singles;

private:
    const TlEmuBuffer* first_;
    struct Part {
        GlobalCell* cells = nullptr;
        size_t bytes = 0;
    };
    std::vector<Part> parts_;
};
}  // namespace tl_emu
#endif
