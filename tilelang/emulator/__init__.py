"""Runs and checks generated GPU kernels on the CPU cores.

The generated CUDA text is compiled as it stands by a C++ compiler, against headers that give the
device's functions a meaning on the CPU. One fiber runs each thread of a block; checked kernels
report every load and store to the runtime, which knows what orders them.

Contract:

* Promises: a kernel runs from the text that a GPU would get, unchanged. A data race, an access out
  of bounds, a read of uninitialized memory, a barrier that threads miss and a deadlock are findings
  with the user's line; a program without such a fault has none, in any schedule of its threads.
* May import: the IR and targets for names and limits, the printed artifact, the runtime that checks
  arguments, and a host compiler. It never imports a pass or the interpreter: it is an independent
  oracle of both.
"""
