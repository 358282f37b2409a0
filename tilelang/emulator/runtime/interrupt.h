// Whether the user wants the program to end (Ctrl-C).
#pragma once

namespace tl_emu {

bool interrupted();

// While one lives, SIGINT is noted here before the process's own handler is called.
class InterruptListener {
   public:
    InterruptListener();
    ~InterruptListener();
    InterruptListener(const InterruptListener&) = delete;
    InterruptListener& operator=(const InterruptListener&) = delete;
};

}  // namespace tl_emu
