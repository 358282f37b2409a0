// Exchange between the lanes of a warp.
#include <cstdio>
#include <cstring>

#include "state.h"

using namespace tl_emu;

namespace {

struct Shuffle {
    char what;
    void* value;
    unsigned bytes;
    int at, width;
    const void* pc;
};

// The lane whose value `lane` receives; itself when that is outside its part of the warp.
int source_lane(const Shuffle& shuffle, int lane) {
    const int width = shuffle.width, first = lane & ~(width - 1), last = first + width - 1;
    int source = 0;
    switch (shuffle.what) {
        case 'i': return first + (shuffle.at & (width - 1));
        case 'u': source = lane - shuffle.at; return source < first ? lane : source;
        case 'd': source = lane + shuffle.at; return source > last ? lane : source;
        default: source = lane ^ shuffle.at; return source > last ? lane : source;
    }
}

void exchange(void** lanes, LaneMask came) {
    uint64_t values[most_lanes] = {};
    each_lane(came, [&](uint32_t k) {
        const Shuffle& mine = *static_cast<Shuffle*>(lanes[k]);
        memcpy(&values[k], mine.value, mine.bytes);
    });
    each_lane(came, [&](uint32_t k) {
        const Shuffle& mine = *static_cast<Shuffle*>(lanes[k]);
        const int source = source_lane(mine, (int)k) & ((int)worker->gang->warp_size - 1);
        if (came >> source & 1) {
            memcpy(mine.value, &values[source], mine.bytes);
            return;
        }
        char text[120];
        snprintf(text, sizeof text, "lane %u reads the value of lane %d, which does not take part in the shuffle", k, source);
        finding_by(current()->warp->lane(k), TL_EMU_WARP_DIVERGENCE, TL_EMU_NO_SPACE, mine.pc, nullptr, TL_EMU_NONE, nullptr,
                   nullptr, 0, text);
    });
}

struct Vote {
    uint64_t value;
    char what;
    uint64_t result;
};

void count_votes(void** lanes, LaneMask came) {
    LaneMask yes = 0;
    each_lane(came, [&](uint32_t k) { yes |= LaneMask{static_cast<Vote*>(lanes[k])->value != 0} << k; });
    each_lane(came, [&](uint32_t k) {
        Vote& mine = *static_cast<Vote*>(lanes[k]);
        mine.result = mine.what == 'b' ? yes : mine.what == '&' ? yes == came : yes != 0;
    });
}

void match_values(void** lanes, LaneMask came) {
    each_lane(came, [&](uint32_t k) {
        Vote& mine = *static_cast<Vote*>(lanes[k]);
        LaneMask same = 0;
        each_lane(came, [&](uint32_t j) { same |= LaneMask{static_cast<Vote*>(lanes[j])->value == mine.value} << j; });
        mine.result = mine.what == '|' || same == came ? same : 0;
    });
}

uint32_t combined(char what, uint32_t a, uint32_t b) {
    switch (what) {
        case '+': return a + b;
        case '&': return a & b;
        case '|': return a | b;
        case 'x': return a ^ b;
        case '_': return a < b ? a : b;
        case '^': return a > b ? a : b;
        case '<': return (int32_t)a < (int32_t)b ? a : b;
        default: return (int32_t)a > (int32_t)b ? a : b;
    }
}

void reduce_values(void** lanes, LaneMask came) {
    bool any = false;
    uint32_t total = 0;
    each_lane(came, [&](uint32_t k) {
        const Vote& mine = *static_cast<Vote*>(lanes[k]);
        total = any ? combined(mine.what, total, (uint32_t)mine.value) : (uint32_t)mine.value;
        any = true;
    });
    each_lane(came, [&](uint32_t k) { static_cast<Vote*>(lanes[k])->result = total; });
}

}  // namespace

extern "C" {

void tl_emu_shuffle(char what, unsigned long long mask, void* value, unsigned bytes, int at, int width) {
    Shuffle mine{what, value, bytes, at, width, TL_EMU_PC()};
    collective("a shuffle", mask, &mine, exchange, mine.pc);
}

unsigned long long tl_emu_vote(char what, unsigned long long mask, int vote) {
    Vote mine{vote != 0, what, 0};
    collective("a vote", mask, &mine, count_votes, TL_EMU_PC());
    return mine.result;
}

unsigned long long tl_emu_match(char what, unsigned long long mask, unsigned long long bits) {
    Vote mine{bits, what, 0};
    collective("a match", mask, &mine, match_values, TL_EMU_PC());
    return mine.result;
}

unsigned tl_emu_warp_reduce(char what, unsigned long long mask, unsigned value) {
    Vote mine{value, what, 0};
    collective("a reduction", mask, &mine, reduce_values, TL_EMU_PC());
    return (unsigned)mine.result;
}

}  // extern "C"
