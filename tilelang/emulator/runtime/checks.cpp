// Beginning and end of a gang that is checked.
#include "checks.h"

#include "async.h"
#include "shadow.h"

namespace tl_emu {

void begin_checks(Gang& gang) {
    if ((gang.flags & (TL_EMU_SHARED_RACES | TL_EMU_GLOBAL_RACES)) == 0) return;
    gang.order = std::make_unique<Order>(gang.block_count, gang.threads, block_agents);
    View* nothing = gang.order->create();
    for (uint32_t k = 0; k < gang.threads * gang.block_count; ++k) gang.order->set_view(gang.fibers[k], nothing);
    gang.order->drop(nothing);
    if ((gang.flags & TL_EMU_SHARED_RACES) && !gang.worker->shadow->reset(gang.block_count)) {
        // Without memory for the record there are no checks of shared memory.
        gang.flags &= ~(uint32_t)TL_EMU_SHARED_RACES;
        gang.worker->flags &= ~(uint32_t)TL_EMU_SHARED_RACES;
    }
}

void end_checks(Gang& gang, Launch&) {
    end_marks(gang);
    if (gang.flags & TL_EMU_COUNTERS) end_counters();
}
}  // namespace tl_emu
