// The emulator's runtime as its own files and the Python side see it.
//
// Two interfaces. The structs TlEmu* and tl_emu_run are plain C, for ctypes. The namespace tl_emu is for the C++
// files of the runtime. Generated kernels include neither: what they may call is in ../include.
//
// A kernel is compiled with -DTL_EMU_ARCH=800 (or 900 ...; 900 when absent), -fwrapv -fno-strict-aliasing, -O2 to
// run fast, and to be checked with -O1 -g -fsanitize=thread (entries of functions not instrumented) but linked
// without the sanitizer's library: this runtime defines its hooks. Not -O2 there: merged stores would look
// misaligned. For every kernel NAME the text is followed by
//     TL_EMU_ENTRY(NAME)
// (tl_types.h), which defines extern "C" void tl_emu_entry_NAME(void** params), the `entry` below.
#ifndef TL_EMU_H
#define TL_EMU_H
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

// -- the plain C interface -----------------------------------------------------------------------------------
#define TL_EMU_ABI 2u  // changes with every change of the structs

// What a launch checks; any of them needs an instrumented kernel. 0 runs as fast as possible.
enum TlEmuCheck : uint32_t {
    TL_EMU_SHARED_RACES = 1,     // races and missing waits in shared memory, proxies, uninitialised shared reads
    TL_EMU_GLOBAL_RACES = 2,     // races in global memory, between blocks and inside one
    TL_EMU_GLOBAL_BOUNDS = 4,    // accesses outside every buffer of the launch
    TL_EMU_SHARED_BOUNDS = 8,    // accesses outside the block's shared memory
    TL_EMU_ALIGNMENT = 16,       // accesses not aligned to their size
    TL_EMU_COUNTERS = 32,        // bank conflicts, sectors: TlEmuSite
    TL_EMU_EVENTS = 64,          // timeline of one block: TlEmuEvent
    TL_EMU_LOST_WRITES = 128,    // with TL_EMU_SHARED_RACES: shared data that no thread reads
    TL_EMU_UNSET_REGISTERS = 256,  // registers read that nothing has written
    TL_EMU_WARP_PRODUCTS = 512,  // with TL_EMU_SHARED_RACES: a warp that has waited for a wgmma knows of its own part only
};
// In which order warps run and asynchronous work completes.
enum TlEmuSchedule : uint32_t {
    TL_EMU_FIFO = 0,    // warps round-robin; asynchronous work completes when a thread waits for it
    TL_EMU_RANDOM = 1,  // both at random, from the seed
    TL_EMU_LATE = 2,    // the last warp first; asynchronous work completes at the last legal moment
    TL_EMU_EARLY = 3,   // the last warp first; asynchronous work completes at once
};
enum TlEmuKind : uint32_t {
    TL_EMU_RACE_READ_WRITE = 1,  // a write not ordered after an earlier read
    TL_EMU_RACE_WRITE_READ,      // a read not ordered after an earlier write
    TL_EMU_RACE_WRITE_WRITE,
    TL_EMU_MISSING_WAIT,         // use of memory or registers that an asynchronous operation still owns
    TL_EMU_MISSING_PROXY_FENCE,  // asynchronous use of what generic stores wrote, without fence.proxy.async
    TL_EMU_UNINITIALISED_SHARED,  // or registers: `buffer` is the declaration, `offset` counts elements
    TL_EMU_OUT_OF_BOUNDS,        // space: global or shared
    TL_EMU_MISALIGNED,
    TL_EMU_BARRIER_DIVERGENCE,   // __syncthreads that not all threads reach
    TL_EMU_BARRIER_COUNT,        // a named barrier used with differing or impossible counts
    TL_EMU_MBARRIER_MISUSE,      // not initialised, too many arrivals, bytes beyond what was expected
    TL_EMU_WARP_DIVERGENCE,      // a warp-wide operation that not all of its lanes reach
    TL_EMU_DEADLOCK,             // text lists the waiting threads
    TL_EMU_STEP_BOUND,
    TL_EMU_TRAP,                 // __trap, a failed assertion
    TL_EMU_INVALID_DESCRIPTOR,
    TL_EMU_LAUNCH,               // a launch that the machine refuses: too many threads, shared bytes ...
    TL_EMU_ASYNC_UNFINISHED,     // the block ended without a wait for asynchronous work
    TL_EMU_CRASH,                // an address that this process cannot access
    TL_EMU_OTHER,
    TL_EMU_LOST_WRITE,           // data in shared memory that is written over, or at the end, unread
    TL_EMU_EARLY_EXIT,           // a block may have ended when another one accesses its shared memory
    TL_EMU_DISAGREEMENT,         // threads have different coordinates for one copy
};
enum TlEmuSpace : uint32_t { TL_EMU_NO_SPACE = 0, TL_EMU_GLOBAL = 1, TL_EMU_SHARED = 2, TL_EMU_REGISTERS = 3 };
enum TlEmuAccess : uint32_t { TL_EMU_READ = 1, TL_EMU_WRITE = 2, TL_EMU_ATOMIC = 3 };

#define TL_EMU_NONE 0xffffffffu
// A thread number at or above this names the asynchronous unit of the block instead of a thread.
#define TL_EMU_ASYNC_UNIT 0x10000u

struct TlEmuBuffer {  // global memory that the kernel may touch
    uint64_t base, bytes;
    uint32_t id, writable;  // bit 0: it may be written; bit 1: nothing has written it when the launch begins
};
struct TlEmuTile {  // a buffer inside the dynamic shared memory; only used to name places
    uint32_t offset, bytes, id, reserved;
};
struct TlEmuLaunch {
    uint32_t abi;  // TL_EMU_ABI
    uint32_t flags;  // of TlEmuCheck
    void (*entry)(void** params);
    void** params;  // a pointer to each parameter's bytes, as the driver's launch takes them
    uint32_t grid[3], block[3], cluster[3];
    uint32_t dynamic_shared;
    uint32_t cooperative;
    uint32_t schedule;
    uint64_t seed;
    uint64_t step_bound;   // switches of one block, cluster or cooperative grid; 0: 2^33
    uint32_t workers;      // 0: one per processor; TL_EMU_GLOBAL_RACES uses one
    uint32_t stack_bytes;  // of one thread; 0: 64 KiB
    const TlEmuBuffer* buffers;
    const TlEmuTile* tiles;
    uint32_t buffer_count, tile_count;
    uint32_t max_shared;   // shared memory of a block at most; 0: 232448 (227 KiB)
    uint32_t event_block;  // linear number of the block whose events are kept
    uint32_t warp_size;    // threads of a warp: 32 or 64; 0: 32
    uint32_t reserved;
};
struct TlEmuFinding {
    uint32_t kind, space;
    uint64_t pc, other_pc;  // return addresses; look up pc - 1. 0: unknown
    uint32_t thread, other_thread;  // linear in their blocks, TL_EMU_NONE, or TL_EMU_ASYNC_UNIT + number
    uint32_t block[3], other_block[3];
    uint64_t address;  // in this process
    uint64_t offset;   // in the buffer or tile `buffer`, else in shared memory
    uint32_t buffer;   // its id, or TL_EMU_NONE
    uint32_t bytes;
    uint64_t count;  // how often this kind happened at this pair of places
    char text[256];  // details, a plain sentence or empty
};
struct TlEmuSite {  // one place in the code that accesses memory, with TL_EMU_COUNTERS; no space: a barrier, and how often
    uint64_t pc;
    uint32_t space, access, bytes, reserved;
    uint64_t requests;      // by warps
    uint64_t accesses;      // by threads
    uint64_t cost, ideal;   // shared: wavefronts; global: sectors of 32 bytes
    uint64_t low, high;     // extent of what was touched: offsets in shared memory, or addresses
};
enum TlEmuEventKind : uint32_t { TL_EMU_EVENT_WAIT = 1, TL_EMU_EVENT_COPY = 2, TL_EMU_EVENT_MATRIX = 3 };
struct TlEmuEvent {  // begin and end in steps (switches) since the block began
    uint32_t kind, warp;
    uint64_t begin, end, pc;
    uint32_t tile, bytes;  // copies: the shared buffer's id
    char what[24];
};
struct TlEmuReport {  // arrays belong to the caller; what does not fit is counted only
    uint32_t abi, reserved;
    TlEmuFinding* findings;
    TlEmuSite* sites;
    TlEmuEvent* events;
    uint32_t finding_capacity, site_capacity, event_capacity;
    uint32_t finding_count, site_count, event_count;
    uint64_t findings_dropped, sites_dropped, events_dropped;
    uint64_t blocks, switches, barriers, warp_operations, async_operations;
    uint64_t shared_bytes;  // of a block: dynamic and static
    uint64_t accesses;      // that were checked
};
// 0: all blocks ran to their end (whether or not there are findings); 1: some block was stopped; 2: refused;
// 3: the user interrupted the program.
extern "C" int tl_emu_run(const TlEmuLaunch* launch, TlEmuReport* report);
extern "C" uint32_t tl_emu_abi(void);

// -- for the runtime's own files -----------------------------------------------------------------------------
namespace tl_emu {

struct Uint3 { uint32_t x, y, z; };
using LaneMask = uint64_t;  // of a warp of up to 64 lanes
struct Warp;
struct Block;
struct Gang;  // what runs as one set of fibers: a block, a cluster, or a cooperative grid
struct Clock;

// One CUDA thread. More fields follow in fiber.h; these never move.
struct Thread {
    Uint3 tid, bid, bdim, gdim;
    uint32_t linear, lane;  // in the block, in the warp
    uint32_t id;            // in the gang
    Warp* warp;
    Block* block;
    Gang* gang;
};
Thread* self();
bool checking(uint32_t flags);  // whether the launch checks any of these

// The caller's return address into generated code; use it in functions that generated code calls directly.
#define TL_EMU_PC() __builtin_return_address(0)

// -- synchronization of lanes
// A barrier of the lanes of `mask` that have not exited: each passes `mine`, the last to arrive runs op once with
// the lanes' pointers (null where absent), then all continue. `what` identifies the operation and must be the same
// literal in all lanes. Memory is not ordered by it (sync_warp does that).
using LaneOp = void (*)(void** lanes, LaneMask mask);
void collective(const char* what, LaneMask mask, void* mine, LaneOp op, const void* pc);
// The same for machines whose lanes run in step, without a mask: a barrier of the lanes that run this call (this `pc`), once
// all others of the warp wait for something else; of several such calls the first in the code goes first. Kernels for
// these machines are compiled so that no call is copied.
void in_step(const char* what, void* mine, LaneOp op, const void* pc);
// The same (with all lanes) for `warps` whole aligned warps (4: a warpgroup); lanes holds 32 * warps pointers.
using GroupOp = void (*)(void** lanes, int count);
void collective_group(const char* what, int warps, void* mine, GroupOp op, const void* pc);
void yield(const void* pc);  // in every loop that polls memory, and in atomic loads
void note_progress();  // the calling thread has done something that others may poll for

// -- memory
// An access of the calling thread made by an operation instead of by compiled code: bounds, alignment, order and
// counters. `align` 0: not checked. Call it for each thread that accesses, before the data moves. Gives false,
// when the access must not be made (out of bounds); the block is then being stopped and the caller returns.
bool touch(Thread* who, const void* p, size_t bytes, TlEmuAccess access, const void* pc, unsigned align = 0);
// Matrix loads and stores of shared memory count one request of the warp: rows of 16 bytes, one per lane.
void count_rows(Thread* leader, void* const* rows, int count, TlEmuAccess access, const void* pc);
// Release and acquire through memory at p: atomics with an order, flags between blocks.
void release_at(const void* p);
void acquire_at(const void* p);

void* shared_base();  // of the calling thread's block
// Shared window: offsets in the own block's memory; tl_emu_map_shared gives those of other blocks of the cluster.
uint32_t shared_address(const void* p);
void* shared_pointer(uint32_t address);
uint32_t map_shared(uint32_t address, uint32_t rank);
void* map_shared(const void* p, uint32_t rank);  // the same place in the block with that rank in the cluster
uint32_t cluster_rank();

// -- findings; stop() does not come back: the gang ends here
void finding(TlEmuKind kind, TlEmuSpace space, const void* pc, const void* address, size_t bytes, const char* format, ...)
    __attribute__((format(printf, 6, 7)));
[[noreturn]] void stop();

// -- mbarriers, by their address in shared memory
void mbarrier_init(void* bar, uint32_t count, const void* pc);
void mbarrier_arrive(void* bar, uint32_t count, const void* pc);
void mbarrier_expect(void* bar, uint32_t bytes, const void* pc);  // without an arrival
bool mbarrier_done(void* bar, uint32_t parity, const void* pc);   // acquires when true
void mbarrier_wait(void* bar, uint32_t parity, const void* pc);   // blocks the fiber

// -- asynchronous work
struct Span { const void* address; size_t bytes; };
struct Arrival { void* barrier; uint32_t bytes; };  // complete_tx when the work is done
enum class Group : uint32_t { none, bulk, matrix };  // per thread; per warpgroup, or warp with TL_EMU_WARP_PRODUCTS
// Something that another unit does after the issuing thread went on: TMA, bulk copies, wgmma, tcgen05.
struct Work {
    const char* what = "";
    const void* pc = nullptr;
    std::vector<Span> reads, writes;         // of shared and global memory, through the async proxy
    bool reduces = false;                    // writes are atomic: others may reduce into the same places
    std::vector<std::pair<Thread*, Span>> registers;  // that threads must leave alone until it is done
    std::function<void()> run;               // moves the data; runs on some fiber, must not block
    std::vector<Arrival> arrivals;           // it signals mbarriers when done ...
    std::vector<void*> arrives;              // ... or arrives at them as a thread would ...
    Group group = Group::none;               // ... or belongs to the issuer's open group
    Thread* issuer = nullptr;                // null: the calling thread
};
// Hand over work, issued by the calling thread (by one of the warpgroup for Group::matrix). Accesses are checked
// here, reads and writes stay pending until a thread observes the completion by a wait or barrier.
void submit(Work&& work);
void commit_group(Group group, Thread& by);   // by the thread, or once by any thread of the warpgroup
// By every thread that waits: all but the latest `left` groups are done. reads_only: only their reads are.
void wait_group(Group group, uint32_t left, bool reads_only, const void* pc);
void fence_proxy_async();
}  // namespace tl_emu
#endif
