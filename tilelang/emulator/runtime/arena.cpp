// The memory that blocks share, and the windows through which it is seen.
//
// Every tile of a checked kernel has a window of its own onto the same memory: a pointer that was made for a tile
// stays in its window whatever is added to it, which shows whether an access leaves the tile for its neighbour.
#include <sys/mman.h>
#include <unistd.h>

#if !defined(__linux__)
#include <fcntl.h>
#endif

#include <algorithm>
#include <bit>
#include <cstdio>

#include "state.h"

namespace tl_emu {

namespace {

constexpr size_t most_window_bytes = (size_t)1 << 38;  // of addresses, not of memory

// A file without a name; -1 where there is none, and then there is one window.
int nameless_file(size_t bytes) {
#if defined(__linux__)
    const int file = memfd_create("tilelang", 0);
#else
    char name[64];
    snprintf(name, sizeof name, "/tilelang-%ld-%p", (long)getpid(), (void*)&name);
    const int file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (file >= 0) shm_unlink(name);
#endif
    if (file >= 0 && ftruncate(file, (off_t)bytes) != 0) {
        close(file);
        return -1;
    }
    return file;
}

// All windows, or null.
unsigned char* map_windows(size_t bytes, size_t count) {
    const int file = nameless_file(bytes);
    if (file < 0) return nullptr;
    void* base = mmap(nullptr, bytes * count, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool good = base != MAP_FAILED;
    for (size_t k = 0; good && k < count; ++k)
        good = mmap((char*)base + k * bytes, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
    close(file);
    if (good) return (unsigned char*)base;
    if (base != MAP_FAILED) munmap(base, bytes * count);
    return nullptr;
}

}  // namespace

void unmap_arena(Worker& own) {
    if (own.arena != nullptr) munmap(own.arena, own.arena_extent);
    own.arena = nullptr;
    own.arena_bytes = own.arena_extent = 0;
}

bool map_arena(Worker& own, const Launch& launch) {
    const size_t bytes = std::bit_ceil((size_t)launch.gang_blocks * arena_stride);
    const bool bounds = (launch.request.flags & TL_EMU_SHARED_BOUNDS) != 0;
    size_t windows = bounds ? launch.tiles.size() + 1 : 1;
    if (bytes * windows > most_window_bytes) windows = 1;
    // A child of the process that made it would share its memory.
    const bool mine = own.arena_owner == (long)getpid();
    if (!mine || own.arena_bytes < bytes || own.arena_extent < own.arena_bytes * windows) {
        const size_t size = mine ? std::max(bytes, own.arena_bytes) : bytes;
        unmap_arena(own);
        own.arena = windows > 1 ? map_windows(size, windows) : nullptr;
        if (own.arena == nullptr) {
            windows = 1;
            void* found = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (found == MAP_FAILED) return false;
            own.arena = (unsigned char*)found;
        }
        own.arena_bytes = size;
        own.arena_extent = size * windows;
        own.arena_shift = (uint32_t)std::countr_zero(size);
        own.arena_owner = (long)getpid();
    }
    own.tile_windows = bounds ? (uint32_t)std::min(windows - 1, launch.tiles.size()) : 0;
    return true;
}

const TlEmuTile* tile_of(const void* p) {
    const Worker& own = *worker;
    const size_t at = (size_t)((const unsigned char*)p - own.arena);
    const size_t window = at >> own.arena_shift;
    return window == 0 || window > own.tile_windows ? nullptr : own.launch->tiles[window - 1];
}

bool inside_tile(const void* p, size_t bytes) {
    const TlEmuTile* tile = tile_of(p);
    if (tile == nullptr) return true;
    const int64_t offset = shared_offset(p);
    return offset >= tile->offset && offset + (int64_t)bytes <= (int64_t)tile->offset + tile->bytes;
}

const void* canonical(const void* p) {
    const Worker& own = *worker;
    const size_t at = (size_t)((const unsigned char*)p - own.arena);
    return at >= own.arena_extent ? p : own.arena + (at & (own.arena_bytes - 1));
}

}  // namespace tl_emu

using namespace tl_emu;

extern "C" {

void* tl_emu_arena(void) { return current()->block->arena; }

// The tile with that number of the kernel, which begins at `offset`.
void* tl_emu_tile(unsigned offset, unsigned number) {
    const Worker& own = *worker;
    unsigned char* at = current()->block->arena + offset;
    const bool known = number < own.tile_windows && own.launch->tiles[number] != nullptr && own.launch->tiles[number]->offset == offset;
    return known ? at + ((size_t)(number + 1) << own.arena_shift) : at;
}

}  // extern "C"
