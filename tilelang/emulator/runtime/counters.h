// What accesses cost: wavefronts of shared memory, sectors of global memory, by place in the code. And what
// happened when in one block.
#ifndef TL_EMU_COUNTERS_H
#define TL_EMU_COUNTERS_H
#include <mutex>
#include <unordered_map>
#include <vector>

#include "state.h"

namespace tl_emu {

// One instruction of a warp: the addresses of its lanes, shared ones as offsets.
struct Request {
    LaneMask lanes = 0;
    uint64_t address[most_lanes];
};

// Accesses of one place in the code by one warp since the last barrier. Lanes run one after the other, so the
// k-th access of each lane belongs to the k-th instruction of the warp.
struct SiteLog {
    uint64_t pc = 0;
    TlEmuSpace space = TL_EMU_NO_SPACE;
    TlEmuAccess access = TL_EMU_READ;
    uint32_t bytes = 0;
    uint32_t shift = 0;  // of global addresses, so that the buffer begins with a sector as on the device
    uint32_t next[most_lanes] = {};
    std::vector<Request> requests;
};

class Counters {
public:
    void add(const SiteLog& log);
    void add_rows(uint64_t pc, TlEmuAccess access, const uint64_t* offsets, int count);
    void add_barrier(uint64_t pc);
    void add_event(const TlEmuEvent& event);
    void write(TlEmuReport& report);

private:
    TlEmuSite& site(uint64_t pc, TlEmuSpace space, TlEmuAccess access, uint32_t bytes);
    std::mutex mutex_;
    std::unordered_map<uint64_t, TlEmuSite> sites_;
    std::vector<TlEmuEvent> events_;
};

// Of one worker.
struct AccessLog {
    std::unordered_map<uint64_t, SiteLog> sites;
    SiteLog* last = nullptr;
    uint64_t last_key = 0;
};
}  // namespace tl_emu
#endif
