// Whether the user wants the program to end (Ctrl-C).
#pragma once

namespace tl_emu {

bool interrupted();

// While it lives, SIGINT is noted here before the process's own handler is called. Launches take
// turns, so that there is one at a time.
class InterruptListener {
   public:
    InterruptListener();
    ~InterruptListener();
    InterruptListener(const InterruptListener&) = delete;
    InterruptListener& operator=(const InterruptListener&) = delete;

   private:
    bool listening_ = false;
};

}  // namespace tl_emu
