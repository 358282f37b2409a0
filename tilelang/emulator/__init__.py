"""Runs generated GPU kernels on the CPU and finds each data race (race condition) and bad access.

A C++ compiler compiles the generated CUDA source unchanged, against headers that implement the
device functions on the CPU. Each thread of a block is a fiber. Checked kernels report every load
and store to the runtime, which tracks the synchronization that orders them.

Contract:

* Promises: a kernel runs from the source that a GPU would get, unchanged. A data race, an access
  out of bounds, a read of uninitialized memory, a barrier that not all threads reach and a deadlock
  are findings with the user's line. A program without such a defect has none, in any schedule of
  its threads.
* May import: the IR and targets for names and limits, the printed artifact, the runtime that checks
  arguments, and a host compiler. It never imports a pass or the interpreter: it is an independent
  oracle of both.
"""
