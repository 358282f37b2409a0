// The interface of the checks for the rest of the runtime. It is only called while a check is on.
#ifndef TL_EMU_CHECKS_H
#define TL_EMU_CHECKS_H
#include "state.h"

namespace tl_emu {

struct Task;
struct Accessor;

void begin_checks(Gang& gang);
void end_checks(Gang& gang, Launch& launch);

// -- shadow.cpp: order of accesses to shared memory
void order_shared(Fiber& who, Block& owner, const void* p, size_t bytes, TlEmuAccess access, const void* pc);
// Which of at most 16 bytes were moved there without having been written, as bits; makes bytes such ones.
uint32_t unset_shared(Block& owner, const void* p, size_t bytes);
// A store to a part of a byte that nothing has written: what it keeps of the byte is no value that is read.
void begin_shared_byte(const void* p);
void unset_shared_again(Block& owner, const void* p, uint32_t which);
// cp.async owns its target from now on; then, what it wrote belongs to `who` or to an asynchronous unit.
void own_copy(Fiber& who, AsyncCopy& copy);
void disown_copy(Fiber& who, const AsyncCopy& copy);
void disown_copy(const AsyncCopy& copy, uint32_t agent, uint32_t clock);
// Accesses of asynchronous work, by the task's clocks.
void order_task(Task& task);

// -- ends.cpp
void order_end(Fiber& me);  // a thread is over

// -- globals.cpp
void order_global(Fiber& who, const TlEmuBuffer& buffer, uint64_t offset, size_t bytes, TlEmuAccess access,
                  const void* pc);
void order_global(const Accessor& who, const void* p, size_t bytes);
// An atomic access; a fence of the thread: see release_at.
void note_atomic(Fiber& fiber, const void* p);
void note_fence(Fiber& fiber, int scope);

// -- counters.cpp
void count_access(Fiber& who, const void* p, size_t bytes, TlEmuAccess access, TlEmuSpace space, const void* pc);
void count_barrier(const void* pc);  // all threads that it waits for have come
void flush_counters(Block& block);
void end_counters();
void note_wait(Fiber& fiber);
void note_copy(Fiber& fiber, const AsyncCopy& copy);
void note_work(const Task& task);
}  // namespace tl_emu
#endif
