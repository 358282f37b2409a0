#include "report.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "async.h"
#include "state.h"

namespace tl_emu {

bool Findings::add(const TlEmuFinding& found) {
    std::lock_guard<std::mutex> guard(mutex_);
    const auto key = std::make_tuple(found.kind, found.pc, found.other_pc, found.space);
    auto [at, fresh] = index_.try_emplace(key, all_.size());
    if (!fresh) {
        ++all_[at->second].count;
        return false;
    }
    if (all_.size() >= most) {
        index_.erase(at);
        ++dropped_;
        return false;
    }
    all_.push_back(found);
    all_.back().count = 1;
    return true;
}

void Findings::write(TlEmuReport& report) {
    const size_t fits = std::min<size_t>(all_.size(), report.finding_capacity);
    if (fits > 0) memcpy(report.findings, all_.data(), fits * sizeof(TlEmuFinding));
    report.finding_count = (uint32_t)fits;
    report.findings_dropped = dropped_ + all_.size() - fits;
}

namespace {

void place(const Launch& launch, const Gang& gang, TlEmuFinding& found) {
    const auto* p = (const char*)found.address;
    found.buffer = TL_EMU_NONE;
    if (found.space == TL_EMU_SHARED) {
        const Block* owner = block_of(const_cast<Gang&>(gang), p);
        if (owner == nullptr) return;
        found.offset = (uint64_t)(int64_t)shared_offset(p);
        if (const TlEmuTile* tile = tile_of(p)) {
            found.buffer = tile->id;
            found.offset -= tile->offset;
            return;
        }
        for (uint32_t k = 0; k < launch.request.tile_count; ++k) {
            const TlEmuTile& tile = launch.request.tiles[k];
            if (found.offset - tile.offset >= tile.bytes) continue;
            found.buffer = tile.id;
            found.offset -= tile.offset;
            return;
        }
    } else if (found.space == TL_EMU_GLOBAL) {
        // The buffer that holds the address, or the nearest below it.
        uint64_t best = UINT64_MAX;
        for (uint32_t k = 0; k < launch.request.buffer_count; ++k) {
            const TlEmuBuffer& buffer = launch.request.buffers[k];
            const uint64_t distance = found.address - buffer.base;
            if (found.address < buffer.base || distance >= best) continue;
            best = distance;
            found.buffer = buffer.id;
            found.offset = distance;
        }
    }
}

}  // namespace

void finding_by(Fiber* who, TlEmuKind kind, TlEmuSpace space, const void* pc, const void* other_pc, uint32_t other,
                const Uint3* other_block, const void* address, size_t bytes, const char* text) {
    TlEmuFinding found{};
    found.kind = kind;
    found.space = space;
    found.pc = (uint64_t)pc;
    found.other_pc = (uint64_t)other_pc;
    found.thread = who != nullptr ? who->linear : TL_EMU_NONE;
    found.other_thread = other;
    if (who != nullptr) memcpy(found.block, &who->block->index, sizeof found.block);
    if (other_block != nullptr) memcpy(found.other_block, other_block, sizeof found.other_block);
    else memcpy(found.other_block, found.block, sizeof found.block);
    found.address = (uint64_t)address;
    found.bytes = (uint32_t)bytes;
    snprintf(found.text, sizeof found.text, "%s", text);
    place(*worker->launch, *worker->gang, found);
    worker->launch->findings->add(found);
}

void report_registers(Fiber& who, TlEmuFinding found, const void* pc, size_t bytes) {
    found.kind = TL_EMU_UNINITIALISED_SHARED;
    found.space = TL_EMU_REGISTERS;
    found.pc = (uint64_t)pc;
    found.thread = who.linear;
    found.other_thread = TL_EMU_NONE;
    found.bytes = (uint32_t)bytes;
    memcpy(found.block, &who.block->index, sizeof found.block);
    memcpy(found.other_block, found.block, sizeof found.block);
    worker->launch->findings->add(found);
}

void finding(TlEmuKind kind, TlEmuSpace space, const void* pc, const void* address, size_t bytes, const char* format, ...) {
    char text[sizeof TlEmuFinding::text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    finding_by(current(), kind, space, pc, nullptr, TL_EMU_NONE, nullptr, address, bytes, text);
}

// -- deadlocks ---------------------------------------------------------------------------------------------------
namespace {

void describe_wait(const Fiber& fiber, char* text, size_t size) {
    if (strcmp(fiber.waiting, "an mbarrier") == 0) {
        const Mbarrier* bar = find_mbarrier(fiber.wait_object);
        const Block* owner = block_of(*fiber.gang, fiber.wait_object);
        if (bar != nullptr && owner != nullptr) {
            snprintf(text, size, "the mbarrier at %u in shared memory, which lacks %u of %u arrivals and %lld bytes in phase %llu",
                     (unsigned)shared_offset(fiber.wait_object), bar->pending, bar->expected,
                     (long long)bar->bytes, (unsigned long long)bar->phase);
            return;
        }
    }
    if (strcmp(fiber.waiting, "a named barrier") == 0) {
        const NamedBarrier& bar = fiber.block->named[(uintptr_t)fiber.wait_object % named_barriers];
        snprintf(text, size, "barrier %u, where %u of %u threads are", (unsigned)(uintptr_t)fiber.wait_object, bar.arrived,
                 bar.expected);
        return;
    }
    if (strcmp(fiber.waiting, "__syncthreads") == 0) {
        snprintf(text, size, "__syncthreads, where %u of %u threads are", fiber.block->arrived, fiber.block->live);
        return;
    }
    snprintf(text, size, "%s", fiber.waiting);
}

}  // namespace

void report_deadlock(Gang& gang) {
    struct Place {
        Fiber* first;
        uint32_t count;
    };
    std::vector<Place> places;
    for (uint32_t k = 0; k < gang.threads * gang.block_count; ++k) {
        Fiber& fiber = gang.fibers[k];
        if (fiber.done) continue;
        auto same = std::find_if(places.begin(), places.end(), [&](const Place& each) {
            return each.first->wait_pc == fiber.wait_pc && strcmp(each.first->waiting, fiber.waiting) == 0 &&
                   each.first->wait_object == fiber.wait_object;
        });
        if (same != places.end()) ++same->count;
        else if (places.size() < 64) places.push_back({&fiber, 1});
    }
    for (const Place& each : places) {
        char where[160], text[240];
        describe_wait(*each.first, where, sizeof where);
        snprintf(text, sizeof text, "%u thread%s for ever at %s", each.count, each.count == 1 ? " waits" : "s wait", where);
        finding_by(each.first, TL_EMU_DEADLOCK, TL_EMU_NO_SPACE, each.first->wait_pc, nullptr, TL_EMU_NONE, nullptr,
                   each.first->wait_object, 0, text);
    }
}
}  // namespace tl_emu
