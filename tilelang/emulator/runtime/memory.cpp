// Shared memory as kernels see it, and what happens at every access that is checked.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "checks.h"
#include "state.h"

namespace tl_emu {

Block* block_of(Gang& gang, const void* p) {
    const Worker& own = *gang.worker;
    const size_t at = (size_t)((const unsigned char*)p - own.arena);
    if (at >= own.arena_extent) return nullptr;
    const size_t number = (at & (own.arena_bytes - 1)) / arena_stride;
    return number < gang.block_count ? &gang.blocks[number] : nullptr;
}

uint32_t shared_bytes(const Launch& launch, const Block& block) {
    return block.static_bytes == 0 ? launch.request.dynamic_shared : launch.static_at + block.static_bytes;
}

// -- addresses ---------------------------------------------------------------------------------------------------
// The window: an offset in the own block's memory, or rank + 1 in the top byte and an offset in that block's.
constexpr uint32_t window_shift = 24;

void* shared_base() { return current()->block->arena; }

uint32_t shared_address(const void* p) {
    const Fiber* me = current();
    const Block* owner = block_of(*me->gang, p);
    if (owner == nullptr) return 0xffffffffu;
    const uint32_t offset = (uint32_t)shared_offset(p) & ((1u << window_shift) - 1);
    return owner == me->block ? offset : offset | (owner->rank + 1) << window_shift;
}

void* shared_pointer(uint32_t address) {
    const Block* block = current()->block;
    const uint32_t rank = address >> window_shift, offset = address & ((1u << window_shift) - 1);
    if (rank == 0) return block->arena + offset;
    if (rank > block->gang->cluster_size) return nullptr;
    return block->cluster[rank - 1].arena + offset;
}

uint32_t map_shared(uint32_t address, uint32_t rank) {
    return (address & ((1u << window_shift) - 1)) | (rank + 1) << window_shift;
}

void* map_shared(const void* p, uint32_t rank) {
    const Fiber* me = current();
    const Block* owner = block_of(*me->gang, p);
    if (owner == nullptr || rank >= me->gang->cluster_size) {
        char text[120];
        snprintf(text, sizeof text, "block %u of a cluster of %u does not exist", rank, me->gang->cluster_size);
        finding_by(current(), TL_EMU_OUT_OF_BOUNDS, TL_EMU_SHARED, TL_EMU_PC(), nullptr, TL_EMU_NONE, nullptr, p, 0, text);
        stop();
    }
    return (unsigned char*)p + (me->block->cluster[rank].arena - owner->arena);  // the same window
}

uint32_t cluster_rank() { return current()->block->rank; }

// -- accesses ----------------------------------------------------------------------------------------------------
namespace {

const TlEmuBuffer* find_buffer(Launch& launch, uint64_t address, size_t bytes) {
    const TlEmuBuffer*& last = worker->last_buffer;
    if (last != nullptr && address - last->base < last->bytes && last->bytes - (address - last->base) >= bytes) return last;
    for (uint32_t k = 0; k < launch.request.buffer_count; ++k) {
        const TlEmuBuffer& buffer = launch.request.buffers[k];
        const uint64_t at = address - buffer.base;
        if (at < buffer.bytes && buffer.bytes - at >= bytes) return last = &buffer;
    }
    return nullptr;
}

void misaligned(Fiber* who, TlEmuSpace space, const void* p, size_t bytes, unsigned align, const void* pc) {
    char text[120];
    snprintf(text, sizeof text, "an access of %zu bytes needs an address that is a multiple of %u", bytes, align);
    finding_by(who, TL_EMU_MISALIGNED, space, pc, nullptr, TL_EMU_NONE, nullptr, p, bytes, text);
}

constexpr const char* access_names[] = {"", "a read", "a write", "an atomic access"};

// The part of a block's memory that its kernel has: dynamic or static.
bool in_block(const Block& owner, int64_t offset, size_t bytes) {
    const Launch& launch = *worker->launch;
    const auto end = offset + (int64_t)bytes;
    // A block that has not begun has what the one that runs has.
    const uint32_t fixed = std::max(owner.static_bytes, current()->block->static_bytes);
    return (offset >= 0 && end <= launch.request.dynamic_shared) ||
           (offset >= launch.static_at && end <= (int64_t)launch.static_at + fixed);
}

bool in_tile(const TlEmuTile& tile, int64_t offset, size_t bytes) {
    return offset >= tile.offset && offset + (int64_t)bytes <= (int64_t)tile.offset + tile.bytes;
}

void outside(Fiber* who, Block& owner, const void* p, size_t bytes, TlEmuAccess access, const void* pc) {
    char text[160];
    const int32_t offset = shared_offset(p);
    snprintf(text, sizeof text, "%s at offset %d of %u bytes of shared memory", access_names[access], offset,
             shared_bytes(*worker->launch, owner));
    finding_by(who, TL_EMU_OUT_OF_BOUNDS, TL_EMU_SHARED, pc, nullptr, TL_EMU_NONE, nullptr, p, bytes, text);
}

bool observe_shared(Fiber* who, Block& owner, const void* p, size_t bytes, TlEmuAccess access, const void* pc) {
    const int32_t offset = shared_offset(p);
    if (!in_block(owner, offset, bytes)) {
        if (checks(TL_EMU_SHARED_BOUNDS)) outside(who, owner, p, bytes, access, pc);
        return offset >= 0 && offset + bytes <= arena_room && !checks(TL_EMU_SHARED_BOUNDS);
    }
    if (!inside_tile(p, bytes)) outside(who, owner, p, bytes, access, pc);
    else if (checks(TL_EMU_SHARED_RACES)) order_shared(*who, owner, p, bytes, access, pc);
    return true;
}

bool observe_global(Fiber* who, const void* p, size_t bytes, TlEmuAccess access, const void* pc) {
    Launch& launch = *worker->launch;
    const TlEmuBuffer* buffer = find_buffer(launch, (uint64_t)p, bytes);
    if (buffer == nullptr) {
        // Constants and variables of the kernel's own library.
        if ((const char*)p >= launch.library_low && (const char*)p < launch.library_high) return true;
        if (!checks(TL_EMU_GLOBAL_BOUNDS)) return true;
        finding_by(who, TL_EMU_OUT_OF_BOUNDS, TL_EMU_GLOBAL, pc, nullptr, TL_EMU_NONE, nullptr, p, bytes,
                   access == TL_EMU_READ ? "a load outside every buffer" : "a store outside every buffer");
        return false;
    }
    if (access != TL_EMU_READ && !buffer->writable && checks(TL_EMU_GLOBAL_BOUNDS)) {
        finding_by(who, TL_EMU_OUT_OF_BOUNDS, TL_EMU_GLOBAL, pc, nullptr, TL_EMU_NONE, nullptr, p, bytes,
                   "a store to a buffer that the kernel only reads");
        return false;
    }
    if (checks(TL_EMU_GLOBAL_RACES)) order_global(*who, *buffer, (uint64_t)p - buffer->base, bytes, access, pc);
    return true;
}

}  // namespace

namespace {

constexpr uint32_t many_polls = 1024;

void give_way_when_polling(Worker& own, const void* p, const void* pc) {
    if (own.polled != p || own.polling_pc != pc) {
        own.polled = p;
        own.polling_pc = pc;
        own.polls = 0;
    } else if (++own.polls == many_polls) {
        own.polls = 0;
        yield(pc);
    }
}

}  // namespace

bool observe(Fiber* who, const void* p, size_t bytes, TlEmuAccess access, const void* pc, unsigned align, bool counted) {
    Worker& own = *worker;
    if ((size_t)((const char*)p - own.stack_base) < own.stack_extent) {
        if (who->watches_registers) check_registers(*who, p, bytes, access, pc);
        return true;
    }
    ++own.accesses;
    if (access == TL_EMU_READ) give_way_when_polling(own, p, pc);
    Block* owner = block_of(*own.gang, p);
    const TlEmuSpace space = owner != nullptr ? TL_EMU_SHARED : TL_EMU_GLOBAL;
    if (align > 1 && ((uintptr_t)p & (align - 1)) != 0 && (own.flags & TL_EMU_ALIGNMENT) != 0)
        misaligned(who, space, p, bytes, align, pc);
    const bool allowed = owner != nullptr ? observe_shared(who, *owner, p, bytes, access, pc)
                                          : observe_global(who, p, bytes, access, pc);
    if (allowed && access == TL_EMU_ATOMIC && own.gang->order && counted) note_atomic(*who, p);
    if (allowed && counted && (own.flags & TL_EMU_COUNTERS)) count_access(*who, p, bytes, access, space, pc);
    return allowed;
}

bool check_extent(Fiber* who, const void* p, size_t bytes, TlEmuAccess access, const void* pc) {
    Block* owner = block_of(*worker->gang, p);
    if (owner == nullptr) {
        if (!checks(TL_EMU_GLOBAL_BOUNDS) || find_buffer(*worker->launch, (uint64_t)p, bytes) != nullptr) return true;
        finding_by(who, TL_EMU_OUT_OF_BOUNDS, TL_EMU_GLOBAL, pc, nullptr, TL_EMU_NONE, nullptr, p, bytes,
                   access == TL_EMU_READ ? "a copy from outside every buffer" : "a copy to outside every buffer");
        return false;
    }
    if (!checks(TL_EMU_SHARED_BOUNDS)) return true;
    if (in_block(*owner, shared_offset(p), bytes) && inside_tile(p, bytes)) return true;
    outside(who, *owner, p, bytes, access, pc);
    return false;
}

bool check_operand(Fiber* who, uint32_t start, const std::vector<std::pair<uint32_t, uint32_t>>& ranges, const void* pc) {
    const Worker& own = *worker;
    if ((own.flags & TL_EMU_SHARED_BOUNDS) == 0 || own.tile_windows == 0 || ranges.empty()) return true;
    Block& block = *who->block;
    const uint32_t low = ranges.front().first, high = ranges.back().first + ranges.back().second;
    const TlEmuTile* near = nullptr;
    for (uint32_t k = 0; k < own.tile_windows; ++k) {
        const TlEmuTile* tile = own.launch->tiles[k];
        if (tile == nullptr || !in_tile(*tile, start, 1)) continue;
        if (in_tile(*tile, low, high - low)) return true;
        if (near == nullptr || tile->offset + tile->bytes > near->offset + near->bytes) near = tile;
    }
    if (near == nullptr) {
        if (in_block(block, low, high - low)) return true;  // of no tile: nothing is known of its extent
        outside(who, block, block.arena + low, high - low, TL_EMU_READ, pc);
        return false;
    }
    // The first bytes outside of it, as if through its own window.
    const uint32_t at = low < near->offset ? low : std::max(low, near->offset + near->bytes);
    outside(who, block, block.arena + at + ((size_t)(near->id + 1) << own.arena_shift), 16, TL_EMU_READ, pc);
    return false;
}

bool touch(Thread* who, const void* p, size_t bytes, TlEmuAccess access, const void* pc, unsigned align) {
    if (worker->flags == 0) return true;
    return observe(static_cast<Fiber*>(who), p, bytes, access, pc, align);
}

// -- matrices of 8 x 8 elements of 16 bits -----------------------------------------------------------------------
namespace {

struct MatrixMove {
    void* registers;
    void* row;
    int count;
    bool transposed, stores;
    const void* pc;
};

// The rows of all matrices, checked; false when one of them is out of bounds.
bool collect_rows(void** lanes, const MatrixMove& first, uint16_t** rows) {
    const int total = first.count * 8;
    const TlEmuAccess access = first.stores ? TL_EMU_WRITE : TL_EMU_READ;
    Fiber* leader = current();
    const Warp& warp = *leader->warp;
    for (int k = 0; k < total; ++k) {
        rows[k] = static_cast<uint16_t*>(static_cast<MatrixMove*>(lanes[k])->row);
        if (worker->flags == 0) continue;
        if (block_of(*leader->gang, rows[k]) == nullptr) {
            finding_by(warp.lane((uint32_t)k), TL_EMU_OUT_OF_BOUNDS, TL_EMU_SHARED, first.pc, nullptr, TL_EMU_NONE, nullptr,
                       rows[k], 16, "a row of a matrix that is not in shared memory");
            return false;
        }
        if (!observe(warp.lane((uint32_t)k), rows[k], 16, access, first.pc, 16, false)) return false;
    }
    if (worker->flags & TL_EMU_COUNTERS)
        count_rows(leader, reinterpret_cast<void* const*>(rows), total, access, first.pc);
    return true;
}

void move_matrices(void** lanes, LaneMask came) {
    if (came != 0xffffffffu) return;  // a partial warp: undefined on the hardware
    const MatrixMove& first = *static_cast<MatrixMove*>(lanes[0]);
    uint16_t* rows[32];
    if (!collect_rows(lanes, first, rows)) stop();
    for (int q = 0; q < first.count; ++q) {
        uint16_t* const* row = rows + q * 8;
        for (int lane = 0; lane < 32; ++lane) {
            auto* registers = static_cast<uint16_t*>(static_cast<MatrixMove*>(lanes[lane])->registers) + q * 2;
            for (int half = 0; half < 2; ++half) {
                const int i = lane / 4, j = lane % 4 * 2 + half;
                uint16_t& place = first.transposed ? row[j][i] : row[i][j];
                if (first.stores) place = registers[half];
                else registers[half] = place;
            }
        }
    }
}

void move_bytes(void* target, const void* source, unsigned bytes) {
    switch (bytes) {  // constant sizes, which are single moves
        case 1: memcpy(target, source, 1); break;
        case 2: memcpy(target, source, 2); break;
        case 4: memcpy(target, source, 4); break;
        case 8: memcpy(target, source, 8); break;
        default: memcpy(target, source, 16); break;
    }
}

bool observe_both(void* target, const void* source, unsigned bytes, const void* pc) {
    Fiber* me = current();
    return observe(me, source, bytes, TL_EMU_READ, pc, bytes) && observe(me, target, bytes, TL_EMU_WRITE, pc, bytes);
}

void observe_copy(void* target, const void* source, unsigned bytes, const void* pc) {
    registers_copied(target, source, bytes, pc);
    if (!observe_both(target, source, bytes, pc)) stop();
}

void move_tracked(void* target, const void* source, unsigned bytes, const void* pc) {
    Worker& own = *worker;
    if (own.marks == nullptr || !checks(TL_EMU_SHARED_RACES)) {  // one of both is not known
        observe_copy(target, source, bytes, pc);
        move_bytes(target, source, bytes);
        return;
    }
    Block *from = block_of(*own.gang, source), *to = block_of(*own.gang, target);
    const uint32_t unset = from != nullptr ? unset_shared(*from, source, bytes) : unset_registers(source, bytes);
    own.moving = true;
    const bool allowed = observe_both(target, source, bytes, pc);
    own.moving = false;
    if (!allowed) stop();
    move_bytes(target, source, bytes);
    registers_written(target, bytes);
    if (to != nullptr) unset_shared_again(*to, target, unset);
    else unset_registers_again(target, unset);
}

}  // namespace
}  // namespace tl_emu

using namespace tl_emu;

extern "C" {

void tl_emu_copy(void* target, const void* source, unsigned bytes) {
    if (worker->flags != 0) observe_copy(target, source, bytes, TL_EMU_PC());
    move_bytes(target, source, bytes);
}

// A copy by which the compiler brings a tile to another layout: it uses nothing, and what nothing has written stays so.
void tl_emu_move(void* target, const void* source, unsigned bytes) {
    const void* pc = TL_EMU_PC();
    const unsigned step = bytes < 16 ? bytes : 16;
    for (unsigned at = 0; at < bytes; at += step) move_tracked((char*)target + at, (const char*)source + at, step, pc);
}

void* tl_emu_static_arena(unsigned offset, unsigned bytes) {
    Block& block = *current()->block;
    const Launch& launch = *worker->launch;
    if (offset + bytes > block.static_bytes) block.static_bytes = offset + bytes;
    if (block.static_bytes > worker->static_high) {
        // Seen for the first time; later blocks begin with all of it poisoned.
        if (launch.static_at + block.static_bytes > arena_room) {
            finding_by(current(), TL_EMU_LAUNCH, TL_EMU_NO_SPACE, TL_EMU_PC(), nullptr, TL_EMU_NONE, nullptr, nullptr, 0,
                       "the kernel declares more shared memory than a block can have");
            stop();
        }
        for (uint32_t k = 0; k < worker->gang->block_count; ++k)
            memset(worker->gang->blocks[k].arena + launch.static_at + worker->static_high, 0xff,
                   block.static_bytes - worker->static_high);
        worker->static_high = block.static_bytes;
    }
    return block.arena + launch.static_at + offset;
}

unsigned tl_emu_shared_address(const void* p) { return shared_address(p); }
void* tl_emu_shared_pointer(unsigned address) { return shared_pointer(address); }
unsigned tl_emu_map_shared(unsigned address, unsigned rank) { return map_shared(address, rank); }
void* tl_emu_map_pointer(const void* p, unsigned rank) { return map_shared(p, rank); }
int tl_emu_is_shared(const void* p) { return block_of(*worker->gang, p) != nullptr; }

void tl_emu_ldmatrix(void* registers, const void* row, int count, int transposed) {
    MatrixMove mine{registers, const_cast<void*>(row), count, transposed != 0, false, TL_EMU_PC()};
    registers_written(registers, 4 * (size_t)count);
    collective("ldmatrix", 0xffffffffu, &mine, move_matrices, mine.pc);
}

void tl_emu_stmatrix(const void* registers, void* row, int count, int transposed) {
    MatrixMove mine{const_cast<void*>(registers), row, count, transposed != 0, true, TL_EMU_PC()};
    registers_read(registers, 4 * (size_t)count, mine.pc);
    collective("stmatrix", 0xffffffffu, &mine, move_matrices, mine.pc);
}

}  // extern "C"
