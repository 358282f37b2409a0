"""The main function of a worker process: it answers requests until its input ends."""

from __future__ import annotations

import logging
import os
import pickle
import sys

from tilelang.autotuner.jobs import Bench, attempt
from tilelang.autotuner.process import HEAD, pickled


def main() -> None:
    """Answer requests. What kernels print goes to the standard error output."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    logging.getLogger("tilelang").setLevel(logging.ERROR)  # the report says what spills
    bench = Bench()
    while True:
        head = requests.read(HEAD.size)
        if len(head) < HEAD.size:  # the program has ended
            return
        message = requests.read(HEAD.unpack(head)[0])
        data = pickled(attempt(_answered, bench, message))
        answers.write(HEAD.pack(len(data)) + data)
        answers.flush()


def _answered(bench: Bench, message: bytes) -> object:
    name, args = pickle.loads(message)
    answer: object = getattr(bench, name)(*args)
    return answer
