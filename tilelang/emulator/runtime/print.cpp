// Failed assertions: the device's line on the standard output, then the end of the launch.
#include <cstdio>

#include "tl_emu.h"

extern "C" void tl_emu_assert_failed(const char* message) {
    const tl_emu::Thread& t = *tl_emu::self();
    std::printf("%s (block %d, %d, %d, thread %d, %d, %d)\n", message, (int)t.bid.x, (int)t.bid.y, (int)t.bid.z,
                (int)t.tid.x, (int)t.tid.y, (int)t.tid.z);
    std::fflush(stdout);
    tl_emu::finding(TL_EMU_TRAP, TL_EMU_NO_SPACE, TL_EMU_PC(), nullptr, 0, "%s", message);
    tl_emu::stop();
}
