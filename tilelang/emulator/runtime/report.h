// Findings of a launch, each kind once per pair of places.
#ifndef TL_EMU_REPORT_H
#define TL_EMU_REPORT_H
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "tl_emu.h"

namespace tl_emu {

class Findings {
public:
    // Counts the finding if its kind was seen at these places already; true when it is new.
    bool add(const TlEmuFinding& found);
    void write(TlEmuReport& report);

private:
    std::mutex mutex_;
    std::map<std::tuple<uint32_t, uint64_t, uint64_t, uint32_t>, size_t> index_;
    std::vector<TlEmuFinding> all_;
    static constexpr size_t most = 4096;
    uint64_t dropped_ = 0;
};
}  // namespace tl_emu
#endif
