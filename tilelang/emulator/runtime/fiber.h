// Fibers: stacks with guard pages and the switch between them.
#ifndef TL_EMU_FIBER_H
#define TL_EMU_FIBER_H
#include <cstddef>

// TL_EMU_PORTABLE chooses ucontext where the switch by hand would do, so that it can be tested.
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(TL_EMU_PORTABLE)
#define TL_EMU_OWN_SWITCH 1
#else
#define TL_EMU_OWN_SWITCH 0
#include <ucontext.h>
#endif

namespace tl_emu {

// The point at which a suspended fiber resumes.
struct Context {
#if TL_EMU_OWN_SWITCH
    void* stack_pointer = nullptr;
#else
    ucontext_t state;
#endif
};

// Save the running fiber in `from` and go on in `to`.
void switch_context(Context& from, Context& to);
// Make `context` start `start`, which never returns, on the stack that ends at `top`.
void make_context(Context& context, char* low, char* top, void (*start)());

// Stacks of one worker, below each a page that traps. Memory is only used once it is touched.
class Stacks {
public:
    Stacks() = default;
    Stacks(const Stacks&) = delete;
    Stacks& operator=(const Stacks&) = delete;
    ~Stacks();
    // At least `count` stacks of `bytes`; false when the system has no room for them.
    bool reserve(size_t count, size_t bytes);
    char* low(size_t number) const { return base_ + number * stride_ + page_; }
    // Tops are spread over the sets of the cache: all fibers use the same frames.
    char* top(size_t number) const { return base_ + (number + 1) * stride_ - number % 16 * 576; }
    const char* base() const { return base_; }
    size_t extent() const { return count_ * stride_; }

private:
    void release();
    char* base_ = nullptr;
    size_t count_ = 0, stride_ = 0, page_ = 4096;
};
}  // namespace tl_emu
#endif
