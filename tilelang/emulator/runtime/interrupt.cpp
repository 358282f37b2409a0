// Ctrl-C ends kernels that would go on for ever: their loops ask whether to go on.
#include "interrupt.h"

#include "../../cpu/include/tl_interrupt.h"
#include "state.h"

namespace tl_emu {

bool interrupted() { return tl_interrupted != 0; }
InterruptListener::InterruptListener() { tl_listen(); }
InterruptListener::~InterruptListener() { tl_stop_listening(); }

}  // namespace tl_emu

extern "C" int tl_emu_goes_on(void) {
    if (tl_emu::interrupted()) tl_emu::stop();
    return 1;
}
