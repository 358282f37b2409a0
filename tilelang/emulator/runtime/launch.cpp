// A launch: its limits, the workers that share its blocks, and the variables that every kernel has.
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "checks.h"
#include "counters.h"
#include "crash.h"
#include "interrupt.h"
#include "report.h"
#include "shadow.h"
#include "state.h"

namespace tl_emu {

Worker::~Worker() {
    unmap_arena(*this);
    drop_marks(*this);
}

namespace {

constexpr uint32_t default_stack = 64 * 1024, default_shared = 232448;

void refuse(Launch& launch, const char* text) {
    TlEmuFinding found{};
    found.kind = TL_EMU_LAUNCH;
    found.pc = (uint64_t)launch.request.entry;
    found.thread = found.other_thread = found.buffer = TL_EMU_NONE;
    snprintf(found.text, sizeof found.text, "%s", text);
    launch.findings->add(found);
}

uint64_t product(const uint32_t* extent) { return (uint64_t)extent[0] * extent[1] * extent[2]; }

// What the driver refuses too. Gives false with a finding.
bool acceptable(Launch& launch) {
    const TlEmuLaunch& request = launch.request;
    char text[160];
    const uint64_t threads = product(request.block), blocks = product(request.grid), cluster = product(request.cluster);
    const uint32_t limit = request.max_shared != 0 ? request.max_shared : default_shared;
    if (threads == 0 || threads > most_threads) {
        snprintf(text, sizeof text, "a block of %llu threads: 1 to %u are possible", (unsigned long long)threads, most_threads);
    } else if (request.warp_size != 0 && request.warp_size != 32 && request.warp_size != 64) {
        snprintf(text, sizeof text, "a warp of %u threads: 32 and 64 are possible", request.warp_size);
    } else if (blocks == 0) {
        snprintf(text, sizeof text, "a grid without blocks");
    } else if (request.dynamic_shared > limit || request.dynamic_shared > arena_room) {
        snprintf(text, sizeof text, "%u bytes of shared memory: a block has at most %u", request.dynamic_shared, limit);
    } else if (cluster == 0 || cluster > 16 || request.grid[0] % request.cluster[0] != 0 ||
               request.grid[1] % request.cluster[1] != 0 || request.grid[2] % request.cluster[2] != 0) {
        snprintf(text, sizeof text, "a grid of %u x %u x %u blocks cannot be cut into clusters of %u x %u x %u", request.grid[0],
                 request.grid[1], request.grid[2], request.cluster[0], request.cluster[1], request.cluster[2]);
    } else if ((request.cooperative ? blocks : cluster) * threads > most_fibers) {
        snprintf(text, sizeof text, "%llu threads that must run at the same time: at most %u are possible here",
                 (unsigned long long)((request.cooperative ? blocks : cluster) * threads), most_fibers);
    } else {
        return true;
    }
    refuse(launch, text);
    return false;
}

// The writable data and constants of the library that holds the kernel.
int find_library(dl_phdr_info* info, size_t, void* data) {
    auto& launch = *static_cast<Launch*>(data);
    const char *low = nullptr, *high = nullptr;
    bool inside = false;
    for (int k = 0; k < info->dlpi_phnum; ++k) {
        const auto& part = info->dlpi_phdr[k];
        if (part.p_type != PT_LOAD) continue;
        const char* begin = (const char*)info->dlpi_addr + part.p_vaddr;
        if (low == nullptr || begin < low) low = begin;
        high = std::max(high, begin + part.p_memsz);
        inside = inside || (launch.anchor >= begin && launch.anchor < begin + part.p_memsz);
    }
    if (!inside) return 0;
    launch.library_low = low;
    launch.library_high = high;
    return 1;
}

}  // namespace

bool prepare(Worker& own, const Launch& launch) {
    const TlEmuLaunch& request = launch.request;
    const uint32_t stack = request.stack_bytes != 0 ? request.stack_bytes : default_stack;
    if (!own.stacks.reserve((size_t)launch.gang_blocks * launch.threads, stack)) return false;
    if (!map_arena(own, launch)) return false;
    own.flags = request.flags;
    own.stack_base = own.stacks.base();
    own.stack_extent = own.stacks.extent();
    own.last_buffer = nullptr;
    if (!prepare_marks(own)) return false;
    own.accesses = 0;
    own.static_high = 0;
    if ((own.flags & TL_EMU_SHARED_RACES) && own.shadow == nullptr) own.shadow = std::make_unique<SharedShadow>();
    return true;
}

namespace {

uint32_t worker_count(const Launch& launch) {
    if (launch.request.flags & TL_EMU_GLOBAL_RACES) return 1;  // its record of memory belongs to one
    uint32_t count = launch.request.workers != 0 ? launch.request.workers : std::thread::hardware_concurrency();
    return (uint32_t)std::clamp<uint64_t>(count, 1, launch.gang_count);
}

void run_all(Launch& launch) {
    launch.workers = launch.running = worker_count(launch);
    std::vector<std::unique_ptr<Worker>> workers;
    for (uint32_t k = 0; k < launch.workers; ++k) {
        workers.push_back(idle_worker());
        if (!prepare(*workers.back(), launch)) {
            refuse(launch, "there is no memory for the stacks of the threads");
            return;
        }
    }
    std::vector<std::thread> helpers;
    for (uint32_t k = 1; k < launch.workers; ++k)
        helpers.emplace_back([&launch, own = std::move(workers[k])]() mutable { run_gangs(launch, std::move(own)); });
    run_gangs(launch, std::move(workers[0]));
    for (std::thread& helper : helpers) helper.join();
}

}  // namespace
}  // namespace tl_emu

using namespace tl_emu;

extern "C" {

uint32_t tl_emu_abi(void) { return TL_EMU_ABI; }

int tl_emu_run(const TlEmuLaunch* request, TlEmuReport* report) {
    if (request->abi != TL_EMU_ABI || report->abi != TL_EMU_ABI) return 2;
    Launch launch;
    launch.request = *request;
    launch.report = report;
    report->reserved = 0;
    launch.findings = std::make_unique<Findings>();
    launch.anchor = (const char*)request->entry;
    int result = 2;
    if (acceptable(launch)) {
        launch.threads = (uint32_t)product(request->block);
        if (request->warp_size != 0) launch.warp_size = request->warp_size;
        launch.cluster_blocks = (uint32_t)product(request->cluster);
        const uint64_t blocks = product(request->grid);
        launch.gang_blocks = request->cooperative ? (uint32_t)blocks : launch.cluster_blocks;
        launch.gang_count = blocks / launch.gang_blocks;
        launch.static_at = (request->dynamic_shared + 1023) / 1024 * 1024;
        for (uint32_t k = 0; k < request->tile_count; ++k) {
            const TlEmuTile& tile = request->tiles[k];
            if (tile.id >= launch.tiles.size()) launch.tiles.resize(tile.id + 1);
            launch.tiles[tile.id] = &tile;
        }
        if (request->flags != 0) {
            dl_iterate_phdr(find_library, &launch);
            launch.counters = std::make_unique<Counters>();
            launch.global = std::make_unique<GlobalShadow>(*request);
        }
        const CrashGuard guard;
        const InterruptListener listener;
        run_all(launch);
        result = interrupted() ? 3 : report->reserved != 0 ? 1 : 0;
    }
    launch.findings->write(*report);
    if (launch.counters) launch.counters->write(*report);
    return result;
}

// -- variables of the kernel -------------------------------------------------------------------------------------
Uint3 tl_emu_thread_index(void) { return current()->tid; }
Uint3 tl_emu_block_index(void) { return current()->bid; }
Uint3 tl_emu_block_extent(void) { return current()->bdim; }
Uint3 tl_emu_grid_extent(void) { return current()->gdim; }

void tl_emu_yield(void) { yield(TL_EMU_PC()); }

void tl_emu_trap(const char* message) {
    finding(TL_EMU_TRAP, TL_EMU_NO_SPACE, TL_EMU_PC(), nullptr, 0, "%s", *message != '\0' ? message : "the kernel stopped itself");
    stop();
}

long long tl_emu_clock(void) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

unsigned long long tl_emu_live_lanes(void) { return current()->warp->live; }

void tl_emu_thread_fence(int scope) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (worker->flags != 0) note_fence(*current(), scope);
}

}  // extern "C"
