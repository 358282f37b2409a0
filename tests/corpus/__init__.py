"""Small whole programs, each with what it has to compute, written from the language's meaning.

One module is one theme. ``registry`` says what a program is; ``test_corpus`` runs every program on
the interpreter, as compiled C and as CUDA text in the emulator (sm_80, a part also for sm_90a), and
compares each array that it writes with plain numpy, bit for bit unless the program says how far
numbers may be apart. The expectations are no output of this project: where numpy and an executor
disagree, the documents of the language decide. Wrong programs, each with the whole text of its
error, are in ``tests/language/errors_frontend.test`` and ``errors_vocabulary.test``.

The modules ``reports_*`` are written after the ideas of reports of wrong code in the trackers of
tile compilers, in our own words.

Of 549 programs (52 of them wrong ones) 501 came out as they should on all executors when they were
first written. Of the other 48, 23 gave wrong numbers somewhere, 21 were refused or ended in an
internal error without a reason, one wrong program was accepted, and three met documented limits.
Most had one of the causes known by then: values bound from bound values, views of tiles with
layouts, negative indices, exchange between threads on the CPU, reducers. New were: no order
between statements on global memory of a block on GPUs (5 programs), a variable of all threads that
a loop of single threads changes, steps of sorting networks, workspaces inside a kernel,
``T.all_of`` of a swizzled tile, ``T.ceildiv`` by negative divisors, and reductions of booleans on
the CPU. Only what passes is kept here.
"""
