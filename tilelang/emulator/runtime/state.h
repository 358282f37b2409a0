// What a running launch consists of: workers, gangs of blocks, warps, fibers.
#ifndef TL_EMU_STATE_H
#define TL_EMU_STATE_H
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "fiber.h"
#include "order.h"
#include "tl_emu.h"

namespace tl_emu {

class Findings;
class Counters;
class SharedShadow;
struct AccessLog;
class GlobalShadow;
struct AsyncUnit;
struct Fiber;

constexpr uint32_t warp_size = 32;   // of NVIDIA's machines, whose units count in it; other launches: Gang::warp_size
constexpr uint32_t most_lanes = 64;  // of the warps of any machine
constexpr uint32_t most_threads = 1024;            // of a block
constexpr uint32_t most_fibers = 16384;            // of a gang: stacks take two mappings each, of 65530
// Shared memory of one block, with room to see overruns: it begins `arena_lead` bytes after a multiple of the
// stride. Of it, `arena_room` bytes have a record.
constexpr uint32_t arena_stride = 512 * 1024, arena_lead = 128 * 1024, arena_room = 256 * 1024;
constexpr uint32_t named_barriers = 16;
constexpr uint32_t block_agents = 64;              // asynchronous units of a block with clocks of their own

// cp.async of one thread: where it goes and what it brings; null source: zeros.
struct AsyncCopy {
    void* target;
    const void* source;
    uint32_t bytes;
    bool moved;
    uint64_t mark;  // what the shadow holds until it is waited for
    const void* pc;
    uint64_t began;  // the step in which it was issued
    const char* what = "cp.async";  // in timelines
};

// Part of a thread's stack that belongs to a group of matrix products until the thread waits for it.
constexpr uint32_t tensor_loads = 0xffffffffu;  // the group of registers that tcgen05.ld writes
struct OwnedRegisters {
    const char* low;
    size_t bytes;
    uint32_t group;
    const void* pc;
};

// Part of a thread's stack that some matrix product has used, and where the thread stored to it since wgmma.fence.
struct MatrixRegisters {
    const char* low;
    size_t bytes;
    const void* stored;
};

// An array of the kernel in a thread's registers, by the number of its declaration.
struct RegisterArray {
    const char* low = nullptr;
    uint32_t bytes = 0, element = 0, number = 0, serial = 0;
};

// A store of the compiled code to bytes that another thread stored: a race, if it changes their value.
struct HeldStore {
    TlEmuKind kind;
    TlEmuSpace space;
    const void *pc, *other_pc, *address;
    uint32_t other, bytes;
    Uint3 other_block;
    const char* text;
    uint8_t before[32];
};

struct Fiber : Thread {
    Context context;
    bool done = false;
    bool left = false;  // by a return: later barriers and warp operations do not count it
    const char* waiting = "";  // for what, when it does not run
    bool multiplies = false;   // it waits for the lanes with which it runs a matrix instruction
    const void* wait_pc = nullptr;
    const void* wait_object = nullptr;
    uint64_t wait_began = 0;
    Fiber* next_waiter = nullptr;
    // What it knows of the others; see order.h.
    View* view = nullptr;
    uint32_t clock = 1;
    ReadCache reads;
    std::vector<AsyncCopy> copies;
    std::vector<size_t> copy_groups;  // ends of committed groups in `copies`
    // Atomic accesses since the last fence: the next fence makes them acquire.
    std::vector<const void*> observed;
    bool fenced_before = false;
    std::vector<OwnedRegisters> registers;  // that asynchronous work still owns
    std::vector<MatrixRegisters> matrix_registers;
    bool fenced_registers = false;
    uint64_t polled_in = 0;  // its state when it polled last: see poll()
    bool watches_registers = false;  // some of them belong, or have belonged, to asynchronous work
    std::vector<RegisterArray> arrays;
    std::vector<HeldStore> held_stores;
    uint32_t array_serial = 0;
};

struct Meeting {
    LaneMask mask = 0, arrived = 0;
    const char* what = nullptr;
    LaneOp op = nullptr;
    const void* pc = nullptr;
    bool masked = true;  // mask names the lanes; else they are those that run the call, see in_step()
};

struct Warp {
    Block* block = nullptr;
    Fiber* fibers = nullptr;
    uint32_t number = 0;
    // Bits of lanes: that can run, that gave way in a loop and run after the others, that have not exited, that there are.
    LaneMask ready = 0, polling = 0, live = 0, all = 0;
    bool queued = false;
    uint32_t meeting_count = 0;       // barriers that a lane has reached
    void* lanes[most_lanes] = {};     // the argument of each waiting lane
    Meeting meetings[most_lanes];     // by the lowest lane of their mask
    Fiber* lane(uint32_t number) const;
};

// Fibers that wait for the same thing.
struct Waiters {
    Fiber* first = nullptr;
    uint32_t count = 0;
    void add(Fiber* fiber) {
        fiber->next_waiter = first;
        first = fiber;
        ++count;
    }
};

struct NamedBarrier {
    uint32_t arrived = 0, expected = 0;
    const void* pc = nullptr;
    Waiters waiters;
    Joined joined;
};

struct WarpgroupMeeting {
    int arrived = 0, warps = 0;
    const char* what = nullptr;
    const void* pc = nullptr;
    void* lanes[4 * warp_size] = {};
    Waiters waiters;
};

// What threads of a block have said at one line of the text, each with its number; by how often they had been there.
struct Agreement {
    std::vector<uint32_t> times;  // of each thread
    std::unordered_map<uint32_t, std::vector<std::pair<uint32_t, std::vector<int>>>> said;
};

struct Block {
    Gang* gang = nullptr;
    uint32_t number = 0;  // in the gang
    Uint3 index{};
    uint32_t rank = 0;    // in the cluster
    Block* cluster = nullptr;  // its first block
    unsigned char* arena = nullptr;
    uint32_t static_bytes = 0;
    Fiber* fibers = nullptr;
    std::unique_ptr<Warp[]> warps;
    uint32_t live = 0;
    // __syncthreads
    uint32_t arrived = 0;
    const void* sync_pc = nullptr;  // of the first that arrived
    int sync_line = 0;
    int votes = 0, result = 0;
    Joined sync_joined;
    NamedBarrier named[named_barriers];
    WarpgroupMeeting warpgroups[most_threads / (4 * warp_size)];
    std::shared_ptr<void> matrix_tails[most_threads / (4 * warp_size)];  // latest products: wgmma.cpp
    std::shared_ptr<void> tensor_memory;                                 // tcgen05.cpp
    uint32_t registers[most_threads / (4 * warp_size)] = {};  // per thread, as setmaxnreg said
    uint32_t agents = 0;  // asynchronous units that have a clock
    std::unordered_map<uint64_t, uint32_t> agent_of;
    Joined ended;  // what its threads that are over knew
    std::unordered_map<uint32_t, Agreement> agreements;  // by the line
    uint32_t first_read_set = 0;  // those below it are ordered before everything that this block does now
};

// A barrier over blocks: of a cluster, of a cooperative grid.
struct WideBarrier {
    uint32_t arrived = 0;
    uint64_t phase = 0;
    Waiters waiters;
    Joined joined;
    View* completed = nullptr;  // of the last phase
};

struct Worker;
struct Launch;

struct Gang {
    Worker* worker = nullptr;
    const Launch* launch = nullptr;
    uint32_t number = 0;  // of all gangs of the launch
    uint32_t flags = 0;
    uint32_t threads = 0, warp_size = 32, warps_per_block = 0, block_count = 0, cluster_size = 1;
    uint32_t live = 0;
    std::unique_ptr<Block[]> blocks;
    std::unique_ptr<Fiber[]> fibers;
    // Warps with lanes that can run, each at most once.
    std::vector<Warp*> queue;  // a ring
    size_t queue_mask = 0, head = 0, queued = 0;
    uint32_t schedule = 0;
    uint64_t random = 0;
    uint64_t switches = 0, step_bound = 0;
    // How often threads yielded: since the last progress; in this slice; with unchanged polled values; see yield().
    uint64_t idle_yields = 0, slice_yields = 0, still_yields = 0;
    Fiber* polling = nullptr;  // which one resumes after other gangs have run
    bool held_up = false;  // a thread is, by pause_at_random
    bool stopped = false;
    Context main;
    WideBarrier grid_barrier;
    std::vector<WideBarrier> cluster_barriers;
    std::vector<uint8_t> cluster_arrived;  // per fiber: arrived without having waited yet
    std::unique_ptr<Order> order;  // only when races are checked
    std::unordered_map<const void*, Joined> flag_order;  // what was released through atomic variables
    std::unique_ptr<AsyncUnit> async;
    uint64_t barriers = 0, warp_operations = 0, async_operations = 0;
};

// A launch as all workers see it.
struct Launch {
    TlEmuLaunch request{};
    TlEmuReport* report = nullptr;
    uint32_t cluster_blocks = 1, gang_blocks = 1;
    uint64_t gang_count = 0;
    uint64_t next_gang = 0;  // shared by the workers
    // Threads of the system that still have gangs; of them, those for which nothing has changed since `changes` changed.
    std::mutex mutex;
    uint32_t workers = 1, running = 1, quiet = 0;
    uint64_t changes = 0;
    bool in_vain = false;  // all of them are quiet
    void note_change() {
        ++changes;
        quiet = 0;
    }
    uint32_t threads = 0, warp_size = 32;
    uint32_t static_at = 0;      // where static shared memory begins
    const char* anchor = nullptr;  // code addresses are kept as distances from here
    const char *library_low = nullptr, *library_high = nullptr;  // data of the kernel's own library
    std::vector<const TlEmuTile*> tiles;  // by their ids
    std::unique_ptr<Findings> findings;
    std::unique_ptr<Counters> counters;
    std::unique_ptr<GlobalShadow> global;
};

// One thread of the system with all that it needs to run gangs; kept for later launches.
struct Worker {
    uint32_t flags = 0;
    const char* stack_base = nullptr;
    size_t stack_extent = 0;
    Fiber* current = nullptr;
    bool storing = false;  // the access that is looked at is a store that follows at once
    bool moving = false;   // ... is of tl_emu_move
    Gang* gang = nullptr;
    Launch* launch = nullptr;
    Stacks stacks;
    // Memory of the blocks, seen through several windows, each of `arena_bytes`, a power of two: the first for all
    // of it, then one for each tile, so that an address identifies the tile that a pointer was made for.
    unsigned char* arena = nullptr;
    size_t arena_bytes = 0, arena_extent = 0;
    uint32_t arena_shift = 0;
    // One byte for each of the stacks, not zero where a register is that nothing has written; null: not looked for.
    uint8_t *marks = nullptr, *marks_memory = nullptr;
    size_t marks_extent = 0;
    uint32_t tile_windows = 0;  // that this launch uses
    long arena_owner = 0;       // the process that made it
    std::unique_ptr<SharedShadow> shadow;
    std::unique_ptr<AccessLog> log;
    const TlEmuBuffer* last_buffer = nullptr;
    uint64_t accesses = 0;
    uint32_t copy_marks = 0;   // distinguish pending cp.async
    // A thread that reads the same place over and over waits for another one to write it.
    const void *polled = nullptr, *polling_pc = nullptr;
    uint32_t polls = 0;
    // See crash.cpp.
    char* recovery = nullptr;
    const void *crash_pc = nullptr, *crash_address = nullptr;
    bool crash_in_stack = false;
    uint32_t static_high = 0;  // most static shared memory that a block used
    ~Worker();
};

// Constant-initialised and of the initial model: its use is one instruction, not a call.
extern thread_local constinit Worker* worker __attribute__((tls_model("initial-exec")));
inline Order* order() { return worker->gang->order.get(); }  // who knows what; none where races are not looked for
inline const void* place_of(int32_t site) { return worker->launch->anchor + site; }
inline Fiber* current() { return worker->current; }

// During its lifetime, the thread waits for its warp in a matrix instruction.
struct Multiplying {
    Multiplying() { current()->multiplies = true; }
    ~Multiplying() { current()->multiplies = false; }
};
inline bool checks(uint32_t flags) { return (worker->flags & flags) != 0; }
// How many threads of an instruction of a warpgroup wait for it together.
inline int part_of(int count) { return checks(TL_EMU_WARP_PRODUCTS) ? (int)warp_size : count; }
// Of an address in the memory of some block: how far it is from where that begins, which may be in front of it.
inline int32_t shared_offset(const void* p) {
    return (int32_t)(((size_t)((const unsigned char*)p - worker->arena) & (arena_stride - 1)) - arena_lead);
}
// Calls visit(lane) for every lane of a mask, the lowest first.
template <class Visit> void each_lane(LaneMask lanes, Visit visit) {
    for (; lanes != 0; lanes &= lanes - 1) visit((uint32_t)__builtin_ctzll(lanes));
}
inline Fiber* Warp::lane(uint32_t number) const { return fibers + number; }

// -- scheduler.cpp
void make_ready(Fiber* fiber);
void make_ready(Warp* warp, LaneMask lanes);
void wake(Waiters& waiters, Fiber* but = nullptr);
void wait_here(const char* what, const void* pc, const void* object = nullptr);
std::unique_ptr<Gang> make_gang(Worker& worker, Launch& launch, uint64_t number);
bool go_on(Gang& gang);  // for some time; false: it has ended
// All its threads have polled in vain: nothing that they do can change anything.
bool only_polls(const Gang& gang);
void end_gang(Gang& gang, Launch& launch);
// -- residents.cpp
std::unique_ptr<Worker> idle_worker();
bool prepare(Worker& own, const Launch& launch);  // false: there is no memory
void run_gangs(Launch& launch, std::unique_ptr<Worker> first);  // those that no other worker runs
Uint3 block_index(const Launch& launch, uint64_t gang, uint32_t block);  // of a block of a gang, by their numbers
uint32_t random_below(Gang& gang, uint32_t count);

// -- barriers.cpp
void leave_barriers(Fiber* fiber);  // what is to be done when a thread exits
void meet_without_others(Warp& warp);  // a lane waits: barriers of its warp without a mask may be complete

// -- arena.cpp
bool map_arena(Worker& own, const Launch& launch);  // false: there is no memory
void unmap_arena(Worker& own);
// The tile that an address in shared memory was made from, or null if that is not known.
const TlEmuTile* tile_of(const void* p);
// On a random schedule, now and then lets others go first: before operations on barriers that do not wait by themselves.
void pause_at_random();
bool inside_tile(const void* p, size_t bytes);  // or no tile is known
// The same place of shared memory in the window of all; other addresses stay as they are.
const void* canonical(const void* p);

// -- memory.cpp
Block* block_of(Gang& gang, const void* p);  // whose shared memory p is in, or null
// An access by a unit: whether it stays inside a buffer, or inside the tile and the block's memory; else a finding.
bool check_extent(Fiber* who, const void* p, size_t bytes, TlEmuAccess access, const void* pc);
uint32_t shared_bytes(const Launch& launch, const Block& block);
// check_extent for an operand that a descriptor names, as ranges of the block's memory: it stays in the tile it starts in.
bool check_operand(Fiber* who, uint32_t start, const std::vector<std::pair<uint32_t, uint32_t>>& ranges, const void* pc);
// An access of `who`: bounds, alignment, order, counters. false: it must not be made.
bool observe(Fiber* who, const void* p, size_t bytes, TlEmuAccess access, const void* pc, unsigned align,
             bool counted = true);

// -- registers.cpp: accesses to a thread's own stack; registers that a matrix product is handed
void check_registers(Fiber& who, const void* p, size_t bytes, TlEmuAccess access, const void* pc);
void use_registers(Fiber& who, const Span& span, uint32_t group, const void* pc);

// -- unset.cpp: registers that nothing has written. Accesses are of the calling thread.
bool prepare_marks(Worker& own);  // false: there is no memory
void drop_marks(Worker& own);
void end_marks(Gang& gang);
void unset_read(Fiber& who, const void* p, size_t bytes, const void* pc);  // some of it is marked
void registers_read(const void* p, size_t bytes, const void* pc);
void registers_written(const void* p, size_t bytes);
void registers_copied(const void* target, const void* source, size_t bytes, const void* pc);
// Which of at most 16 bytes nothing has written, as bits; makes bytes such ones.
uint32_t unset_registers(const void* p, size_t bytes);
void unset_registers_again(void* p, uint32_t which);

// -- report.cpp
void report_registers(Fiber& who, TlEmuFinding found, const void* pc, size_t bytes);
void finding_by(Fiber* who, TlEmuKind kind, TlEmuSpace space, const void* pc, const void* other_pc, uint32_t other,
                const Uint3* other_block, const void* address, size_t bytes, const char* text);
void report_deadlock(Gang& gang);
}  // namespace tl_emu
#endif
