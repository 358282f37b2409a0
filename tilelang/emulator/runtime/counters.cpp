#include "counters.h"

#include <algorithm>
#include <cstring>

#include "async.h"
#include "checks.h"

namespace tl_emu {

namespace {

// A request to shared memory is served in groups of lanes that together move at most 128 bytes; a group takes as
// many wavefronts as one bank has to deliver different words.
uint32_t wavefronts(const Request& request, uint32_t bytes, uint32_t& ideal) {
    const uint32_t group = bytes >= 16 ? 8 : bytes == 8 ? 16 : 32;
    constexpr uint32_t most_words = 32 * 4;  // of a group: bytes are at most 16
    uint32_t total = 0;
    for (uint32_t first = 0; first < most_lanes; first += group) {
        uint64_t words[most_words];
        uint32_t count = 0;
        for (uint32_t lane = first; lane < first + group; ++lane) {
            if ((request.lanes >> lane & 1) == 0) continue;
            for (uint64_t word = request.address[lane] / 4; word * 4 < request.address[lane] + bytes && count < most_words; ++word)
                words[count++] = word;
        }
        if (count == 0) continue;
        std::sort(words, words + count);
        count = (uint32_t)(std::unique(words, words + count) - words);
        uint32_t in_bank[32] = {}, most = 0;
        for (uint32_t k = 0; k < count; ++k) most = std::max(most, ++in_bank[words[k] % 32]);
        total += most;
        ++ideal;
    }
    return total;
}

uint32_t sectors(const Request& request, uint32_t bytes, uint32_t& ideal) {
    std::vector<uint64_t> touched;
    uint64_t low = UINT64_MAX;
    std::vector<uint64_t> starts;
    each_lane(request.lanes, [&](uint32_t lane) {
        starts.push_back(request.address[lane]);
        low = std::min(low, request.address[lane]);
        for (uint64_t at = request.address[lane] / 32; at * 32 < request.address[lane] + bytes; ++at) touched.push_back(at);
    });
    std::sort(touched.begin(), touched.end());
    std::sort(starts.begin(), starts.end());
    const auto distinct = (uint64_t)(std::unique(starts.begin(), starts.end()) - starts.begin());
    ideal += (uint32_t)((distinct * bytes + 31) / 32);
    return (uint32_t)(std::unique(touched.begin(), touched.end()) - touched.begin());
}

}  // namespace

TlEmuSite& Counters::site(uint64_t pc, TlEmuSpace space, TlEmuAccess access, uint32_t bytes) {
    TlEmuSite& found = sites_[pc * 8 + (uint64_t)space * 4 + (uint64_t)access];
    if (found.requests == 0) {
        found.pc = pc;
        found.space = space;
        found.access = access;
        found.bytes = bytes;
        found.low = UINT64_MAX;
    }
    return found;
}

void Counters::add(const SiteLog& log) {
    std::lock_guard<std::mutex> guard(mutex_);
    TlEmuSite& into = site(log.pc, log.space, log.access, log.bytes);
    for (const Request& request : log.requests) {
        uint32_t ideal = 0;
        into.cost += log.space == TL_EMU_SHARED ? wavefronts(request, log.bytes, ideal) : sectors(request, log.bytes, ideal);
        into.ideal += ideal;
        ++into.requests;
        into.accesses += (uint64_t)__builtin_popcountll(request.lanes);
        each_lane(request.lanes, [&](uint32_t lane) {
            const uint64_t address = request.address[lane] + log.shift;
            into.low = std::min(into.low, address);
            into.high = std::max(into.high, address + log.bytes);
        });
    }
}

void Counters::add_rows(uint64_t pc, TlEmuAccess access, const uint64_t* offsets, int count) {
    std::lock_guard<std::mutex> guard(mutex_);
    TlEmuSite& into = site(pc, TL_EMU_SHARED, access, 16);
    ++into.requests;
    into.accesses += (uint64_t)count;
    for (int first = 0; first < count; first += 8) {
        // Eight rows of 16 bytes fill the banks once if no two rows are in the same group of four banks.
        Request request;
        for (int k = 0; k < 8; ++k) {
            request.lanes |= LaneMask{1} << k;
            request.address[k] = offsets[first + k];
            into.low = std::min(into.low, offsets[first + k]);
            into.high = std::max(into.high, offsets[first + k] + 16);
        }
        uint32_t ideal = 0;
        into.cost += wavefronts(request, 16, ideal);
        into.ideal += ideal;
    }
}

void Counters::add_barrier(uint64_t pc) {
    std::lock_guard<std::mutex> guard(mutex_);
    ++site(pc, TL_EMU_NO_SPACE, TlEmuAccess{}, 0).requests;
}

void Counters::add_event(const TlEmuEvent& event) {
    std::lock_guard<std::mutex> guard(mutex_);
    if (event.kind == TL_EMU_EVENT_COPY && !events_.empty()) {  // bytes of one instruction in a loop
        TlEmuEvent& last = events_.back();
        if (last.kind == event.kind && last.pc == event.pc && last.warp == event.warp && last.tile == event.tile &&
            last.begin == event.begin && last.end == event.end) {
            last.bytes += event.bytes;
            return;
        }
    }
    events_.push_back(event);
}

void Counters::write(TlEmuReport& report) {
    for (const auto& [key, each] : sites_) {
        if (report.site_count < report.site_capacity) report.sites[report.site_count++] = each;
        else ++report.sites_dropped;
    }
    for (const TlEmuEvent& each : events_) {
        if (report.event_count < report.event_capacity) report.events[report.event_count++] = each;
        else ++report.events_dropped;
    }
}

// -- the interface of checks.h -----------------------------------------------------------------------------------
namespace {

constexpr uint32_t most_requests = 4096;  // of one place before they are counted

AccessLog& log_of_worker() {
    if (worker->log == nullptr) worker->log = std::make_unique<AccessLog>();
    return *worker->log;
}

void flush(SiteLog& log) {
    if (!log.requests.empty()) worker->launch->counters->add(log);
    log.requests.clear();
    memset(log.next, 0, sizeof log.next);
}

uint64_t address_for(const void* p, TlEmuSpace space) {
    if (space != TL_EMU_SHARED) return (uint64_t)p;
    return (uint64_t)shared_offset(p);
}

uint64_t block_number(const Block& block) {
    const uint32_t* grid = worker->launch->request.grid;
    return block.index.x + (uint64_t)grid[0] * (block.index.y + (uint64_t)grid[1] * block.index.z);
}

bool watched(const Block& block) { return block_number(block) == worker->launch->request.event_block; }

}  // namespace

namespace {
void note_access(Fiber& who, size_t bytes, TlEmuAccess access, const void* pc) {
    TlEmuEvent event{};
    event.kind = TL_EMU_EVENT_COPY;
    event.warp = who.warp->number;
    event.begin = event.end = who.gang->switches;
    event.pc = (uint64_t)pc;
    event.tile = TL_EMU_NONE;
    event.bytes = (uint32_t)bytes;
    strncpy(event.what, access == TL_EMU_READ ? "load" : access == TL_EMU_WRITE ? "store" : "atomic", sizeof event.what - 1);
    worker->launch->counters->add_event(event);
}
}  // namespace

void count_access(Fiber& who, const void* p, size_t bytes, TlEmuAccess access, TlEmuSpace space, const void* pc) {
    if ((worker->flags & TL_EMU_EVENTS) && space == TL_EMU_GLOBAL && watched(*who.block)) note_access(who, bytes, access, pc);
    AccessLog& log = log_of_worker();
    const uint64_t warp = (uint64_t)who.block->number * (most_threads / warp_size) + who.warp->number;
    const uint64_t key = ((uint64_t)pc * 2 + (access != TL_EMU_READ)) * 2 + (space == TL_EMU_SHARED) + (warp << 50);
    if (log.last == nullptr || log.last_key != key) {
        log.last = &log.sites[key];
        log.last_key = key;
    }
    SiteLog& site = *log.last;
    if (site.requests.empty()) {
        site.pc = (uint64_t)pc;
        site.space = space;
        site.access = access;
        site.bytes = (uint32_t)bytes;
        const TlEmuBuffer* buffer = worker->last_buffer;
        site.shift = space == TL_EMU_GLOBAL && buffer != nullptr ? (uint32_t)(buffer->base % 32) : 0;
    }
    const uint32_t at = site.next[who.lane]++;
    if (at >= site.requests.size()) site.requests.resize(at + 1);
    Request& request = site.requests[at];
    request.lanes |= LaneMask{1} << who.lane;
    request.address[who.lane] = address_for(p, space) - site.shift;
    if (at >= most_requests && request.lanes == who.warp->live) flush(site);
}

void count_rows(Thread* leader, void* const* rows, int count, TlEmuAccess access, const void* pc) {
    (void)leader;
    uint64_t offsets[warp_size];
    for (int k = 0; k < count; ++k) offsets[k] = address_for(rows[k], TL_EMU_SHARED);
    worker->launch->counters->add_rows((uint64_t)pc, access, offsets, count);
}

void count_barrier(const void* pc) { worker->launch->counters->add_barrier((uint64_t)pc); }

void flush_counters(Block& block) {
    // Warps of other blocks of a gang have barriers of their own.
    for (auto& [key, site] : log_of_worker().sites)
        if ((key >> 50) / (most_threads / warp_size) % 4096 == block.number % 4096) flush(site);
}

void end_counters() {
    if (worker->log == nullptr) return;
    for (auto& [key, site] : worker->log->sites) flush(site);
    worker->log->sites.clear();
    worker->log->last = nullptr;
}

namespace {
// The shared buffer at an address.
uint32_t tile_at(const void* p) {
    const auto offset = (uint32_t)shared_offset(p);
    const TlEmuLaunch& request = worker->launch->request;
    uint32_t found = TL_EMU_NONE;
    for (uint32_t k = 0; k < request.tile_count; ++k)
        if (offset - request.tiles[k].offset < request.tiles[k].bytes) found = request.tiles[k].id;
    return found;
}
}  // namespace

void note_copy(Fiber& fiber, const AsyncCopy& copy) {
    if (fiber.lane != 0 || !watched(*fiber.block)) return;
    TlEmuEvent event{};
    event.kind = TL_EMU_EVENT_COPY;
    event.warp = fiber.warp->number;
    event.begin = copy.began;
    event.end = fiber.gang->switches;
    event.pc = (uint64_t)copy.pc;
    event.tile = tile_at(copy.target);
    event.bytes = copy.bytes * (uint32_t)__builtin_popcountll(fiber.warp->live);
    strncpy(event.what, copy.what, sizeof event.what - 1);
    worker->launch->counters->add_event(event);
}

void note_wait(Fiber& fiber) {
    if (fiber.lane != 0 || !watched(*fiber.block)) return;
    TlEmuEvent event{};
    event.kind = fiber.multiplies ? TL_EMU_EVENT_MATRIX : TL_EMU_EVENT_WAIT;
    event.warp = fiber.warp->number;
    event.begin = fiber.wait_began;
    event.end = fiber.gang->switches;
    event.pc = (uint64_t)fiber.wait_pc;
    event.tile = TL_EMU_NONE;
    strncpy(event.what, fiber.waiting, sizeof event.what - 1);
    worker->launch->counters->add_event(event);
}

void note_work(const Task& task) {
    if (!watched(*task.block)) return;
    TlEmuEvent event{};
    event.kind = task.work.group == Group::matrix ? TL_EMU_EVENT_MATRIX : TL_EMU_EVENT_COPY;
    event.warp = task.issuer->warp->number;
    event.begin = task.began;
    event.end = task.block->gang->switches;
    event.pc = (uint64_t)task.work.pc;
    event.tile = TL_EMU_NONE;
    strncpy(event.what, task.work.what, sizeof event.what - 1);
    for (const std::vector<Span>* spans : {&task.work.writes, &task.work.reads}) {
        for (const Span& span : *spans) {
            const Block* owner = block_of(*worker->gang, span.address);
            if (owner == nullptr || event.tile != TL_EMU_NONE) continue;
            event.bytes += (uint32_t)span.bytes;
            event.tile = tile_at(span.address);
        }
    }
    worker->launch->counters->add_event(event);
}
}  // namespace tl_emu
