// Exchange between the lanes of an AMD wave, 32 or 64 of them that run in step: instructions have no mask, who is
// there takes part. Sources: "AMD Instinct MI300 ISA" and "RDNA3 ISA", chapters on DPP, LDS permutes and lanes.
#include <cstdio>
#include <cstring>

#include "async.h"
#include "state.h"

using namespace tl_emu;

namespace {

constexpr int no_lane = -1;

// A lane receives the word of another one. If there is no such lane, or it is inactive and may be, `value` is
// `otherwise` afterwards.
struct Pull {
    uint32_t value;
    int source;
    uint32_t otherwise;
    bool absent_allowed;
    const char* what;
    const void* pc;
};

void say_absent(uint32_t lane, int source, const char* what, const void* pc) {
    char text[160];
    snprintf(text, sizeof text, "lane %u reads the value of lane %d, which does not take part in %s", lane, source, what);
    finding_by(current()->warp->lane(lane), TL_EMU_WARP_DIVERGENCE, TL_EMU_NO_SPACE, pc, nullptr, TL_EMU_NONE, nullptr,
               nullptr, 0, text);
}

void pull_values(void** lanes, LaneMask came) {
    uint32_t values[most_lanes] = {};
    each_lane(came, [&](uint32_t k) { values[k] = static_cast<Pull*>(lanes[k])->value; });
    each_lane(came, [&](uint32_t k) {
        Pull& mine = *static_cast<Pull*>(lanes[k]);
        const bool there = mine.source != no_lane && (came >> mine.source & 1) != 0;
        if (!there && mine.source != no_lane && !mine.absent_allowed) say_absent(k, mine.source, mine.what, mine.pc);
        mine.value = there ? values[mine.source] : mine.otherwise;
    });
}

uint32_t pull(const char* what, uint32_t value, int source, uint32_t otherwise, bool absent_allowed, const void* pc) {
    Pull mine{value, source, otherwise, absent_allowed, what, pc};
    in_step(what, &mine, pull_values, pc);
    return mine.value;
}

int wave_size() { return (int)worker->gang->warp_size; }
int my_lane() { return (int)current()->lane; }

// ds_permute_b32: a lane sends its word; of several to one lane, the highest one stays.
struct Push {
    uint32_t value;
    int target;
};

void push_values(void** lanes, LaneMask came) {
    uint32_t values[most_lanes] = {};
    each_lane(came, [&](uint32_t k) {
        const Push& mine = *static_cast<Push*>(lanes[k]);
        values[mine.target] = mine.value;
    });
    each_lane(came, [&](uint32_t k) { static_cast<Push*>(lanes[k])->value = values[k]; });
}

// v_readfirstlane_b32: the value of the lowest active lane.
void first_value(void** lanes, LaneMask came) {
    const uint32_t value = *static_cast<uint32_t*>(lanes[__builtin_ctzll(came)]);
    each_lane(came, [&](uint32_t k) { *static_cast<uint32_t*>(lanes[k]) = value; });
}

struct WaveVote {
    LaneMask value;
};

void ballot(void** lanes, LaneMask came) {
    LaneMask yes = 0;
    each_lane(came, [&](uint32_t k) { yes |= LaneMask{static_cast<WaveVote*>(lanes[k])->value != 0} << k; });
    each_lane(came, [&](uint32_t k) { static_cast<WaveVote*>(lanes[k])->value = yes; });
}

// The lane that a DPP control names, `no_lane` beyond the ends. Rows have 16 lanes.
int dpp_source(unsigned control, int lane) {
    const int row = lane & ~15, at = lane & 15, by = (int)(control & 15), size = wave_size();
    if (control < 0x100) return (lane & ~3) + (int)(control >> 2 * (lane & 3) & 3);  // quad_perm
    switch (control & 0x1f0) {
        case 0x100: return at + by < 16 ? lane + by : no_lane;  // row_shl
        case 0x110: return at >= by ? lane - by : no_lane;      // row_shr
        case 0x120: return row + ((at - by) & 15);             // row_ror
        case 0x150: return row + by;                           // row_share, row_newbcast
        case 0x160: return row + (at ^ by);                    // row_xmask
        default: break;
    }
    switch (control) {
        case 0x130: return lane + 1 < size ? lane + 1 : no_lane;  // wave_shl
        case 0x134: return (lane + 1) % size;                    // wave_rol
        case 0x138: return lane > 0 ? lane - 1 : no_lane;         // wave_shr
        case 0x13c: return (lane + size - 1) % size;             // wave_ror
        case 0x140: return row + 15 - at;                        // row_mirror
        case 0x141: return (lane & ~7) + 7 - (lane & 7);         // row_half_mirror
        case 0x142: return row > 0 ? row - 1 : no_lane;           // row_bcast:15
        case 0x143: return lane >= 32 ? (lane & 32) - 1 : no_lane;  // row_bcast:31
        default: return no_lane;
    }
}

int swizzle_source(unsigned pattern, int lane) {
    if (pattern & 0x8000) return (lane & ~3) + (int)(pattern >> 2 * (lane & 3) & 3);
    const int keep = (int)(pattern & 31), set = (int)(pattern >> 5 & 31), flip = (int)(pattern >> 10 & 31);
    return (lane & ~31) + ((((lane & 31) & keep) | set) ^ flip);
}

// Loads of a wave straight into LDS: to the address of its first lane, one lane behind the other.
struct LoadLds {
    const void* base;
    const void* pc;
};

void same_base(void** lanes, LaneMask came) {
    const auto& first = *static_cast<LoadLds*>(lanes[__builtin_ctzll(came)]);
    each_lane(came, [&](uint32_t k) {
        auto& mine = *static_cast<LoadLds*>(lanes[k]);
        if (mine.base != first.base)
            finding_by(current()->warp->lane(k), TL_EMU_WARP_DIVERGENCE, TL_EMU_SHARED, mine.pc, nullptr, TL_EMU_NONE, nullptr,
                       mine.base, 0, "a load to LDS has one address for all lanes of the wave, and this lane has another one");
        mine.base = first.base;
    });
}

}  // namespace

extern "C" {

void tl_emu_cp_async(void* target, const void* source, unsigned bytes);

unsigned tl_emu_wave_size(void) { return worker->gang->warp_size; }
unsigned tl_emu_lane(void) { return current()->lane; }

// ds_bpermute_b32: from the lane whose number times four is `address`.
unsigned tl_emu_bpermute(unsigned address, unsigned value) {
    return pull("ds_bpermute", value, (int)(address / 4) & (wave_size() - 1), 0, false, TL_EMU_PC());
}

unsigned tl_emu_permute(unsigned address, unsigned value) {
    Push mine{value, (int)(address / 4) & (wave_size() - 1)};
    in_step("ds_permute", &mine, push_values, TL_EMU_PC());
    return mine.value;
}

unsigned tl_emu_swizzle(unsigned value, unsigned pattern) {
    return pull("ds_swizzle", value, swizzle_source(pattern, my_lane()), 0, false, TL_EMU_PC());
}

unsigned tl_emu_readlane(unsigned value, unsigned lane) {
    return pull("readlane", value, (int)lane & (wave_size() - 1), 0, false, TL_EMU_PC());
}

unsigned tl_emu_readfirstlane(unsigned value) {
    in_step("readfirstlane", &value, first_value, TL_EMU_PC());
    return value;
}

// bound: lanes beyond the ends give 0 instead of leaving `old`.
unsigned tl_emu_dpp(unsigned old, unsigned value, unsigned control, unsigned rows, unsigned banks, int bound) {
    const int lane = my_lane();
    const bool on = (rows >> (lane >> 4 & 3) & 1) != 0 && (banks >> (lane >> 2 & 3) & 1) != 0;
    const uint32_t otherwise = on && bound ? 0 : old;
    return pull("a DPP instruction", value, on ? dpp_source(control, lane) : no_lane, otherwise, true, TL_EMU_PC());
}

unsigned tl_emu_dpp8(unsigned value, unsigned selectors) {
    const int lane = my_lane();
    return pull("a DPP8 instruction", value, (lane & ~7) + (int)(selectors >> 3 * (lane & 7) & 7), 0, false, TL_EMU_PC());
}

// v_permlane16_b32 and, with `other`, v_permlanex16_b32: within the row, or from the other row of a pair.
unsigned tl_emu_permlane16(unsigned old, unsigned value, unsigned low, unsigned high, int other, int bound) {
    const int lane = my_lane();
    const unsigned selectors = lane & 8 ? high : low;
    const int source = ((lane & ~15) ^ (other ? 16 : 0)) + (int)(selectors >> 4 * (lane & 7) & 15);
    return pull("v_permlane16", value, source, bound ? 0 : old, bound != 0, TL_EMU_PC());
}

unsigned tl_emu_permlane64(unsigned value) {
    const int lane = my_lane();
    return pull("v_permlane64", value, wave_size() == 64 ? lane ^ 32 : lane, 0, false, TL_EMU_PC());
}

// v_permlane16_swap_b32, v_permlane32_swap_b32: odd groups of `count` lanes of the first register change places with even
// ones of the second.
void tl_emu_permlane_swap(unsigned* first, unsigned* second, unsigned count) {
    const int lane = my_lane();
    const bool odd = (lane / (int)count & 1) != 0;
    const uint32_t moved = pull("v_permlane_swap", odd ? *first : *second, lane ^ (int)count, 0, false, TL_EMU_PC());
    *(odd ? first : second) = moved;
}

unsigned long long tl_emu_ballot(int vote) {
    WaveVote mine{vote != 0};
    in_step("a ballot", &mine, ballot, TL_EMU_PC());
    return mine.value;
}

void tl_emu_load_lds(const void* source, void* base, unsigned bytes) {
    LoadLds mine{base, TL_EMU_PC()};
    in_step("a load to LDS", &mine, same_base, mine.pc);
    tl_emu_cp_async((char*)const_cast<void*>(mine.base) + current()->lane * bytes, source, bytes);
    std::vector<AsyncCopy>& copies = current()->copies;
    if (!copies.empty()) copies.back().what = "load to LDS";
}

// s_waitcnt vmcnt(left), of which only loads to LDS are counted here: others end when they are made.
void tl_emu_wait_loads(unsigned left) {
    Fiber* me = current();
    if (me->copies.size() > left) move_copies(*me, me->copies.size() - left);
}

}  // extern "C"
