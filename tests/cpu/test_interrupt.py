"""Ctrl-C ends kernels that would go on for ever, on the CPU and in the emulator."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.emulator.compilers import find_cxx

PROGRAM = """
import os, signal, sys, threading, time
import numpy as np
import tilelang, tilelang.language as T

@T.prim_func
def endless(A: T.Tensor((4,), "int32")):
    with T.Kernel(3, threads=BLOCK) as b:
        A[3] = 1
        while A[0] == 0:
            A[b] = A[b] * 1

def poke():
    while kernel_runs:
        if time.sleep(1 if BACKEND == "emulator" else 0.05) or memory[3] or BACKEND == "emulator":  # whose kernels work on copies
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell runs this apart
kernel = tilelang.compile(endless, TARGET, execution_backend=BACKEND)
for repeated in range(2):
    memory, kernel_runs = np.zeros(4, np.int32), True
    sender = threading.Thread(target=poke)
    BEFORE
    sender.start()
    try:
        CALL
    except KeyboardInterrupt:
        kernel_runs = False
    while sender.is_alive():
        try:
            time.sleep(0.1)
        except KeyboardInterrupt:  # one more that was on its way
            pass
    print("ended")
"""
OVERLAPPING = """
import signal, threading, time
import numpy as np
import tilelang, tilelang.language as T

def waiting(step):
    @T.prim_func
    def kernel(A: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=1):
            T.atomic_store(A[1], step)
            while T.atomic_load(A[0]) == 0:
                T.evaluate(0)
    return tilelang.compile(kernel, target="cpu")

class Running:
    def __init__(self, kernel):
        self.memory = np.zeros(2, np.int32)
        self.thread = threading.Thread(target=kernel, args=(self.memory,))
        self.thread.start()
        while self.memory[1] == 0:
            time.sleep(0.001)

    def end(self):
        self.memory[0] = 1
        self.thread.join()

signal.signal(signal.SIGINT, signal.default_int_handler)
first, second = waiting(1), waiting(2)
for one, other in ((first, second), (second, first), (first, second)):
    calls = Running(one), Running(other)
    for call in calls:
        call.end()
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""
CALLS = {
    "main thread": ("pass", "kernel(memory)"),
    "own handler": ("signal.signal(signal.SIGINT, lambda *_: print('noted'))", "kernel(memory)"),
    "other thread": (
        "results = []",
        """
        def work():
            global kernel_runs
            try:
                kernel(memory)
            except KeyboardInterrupt:
                results.append("ended there too")
            kernel_runs = False
        helper = threading.Thread(target=work)
        helper.start()
        while not results:  # join may be told that a thread has ended when it is interrupted
            try:
                time.sleep(0.1)
            except KeyboardInterrupt:
                pass
        kernel_runs = False""",
    ),
}


def program(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """A program that has ended; it is killed when it does not."""
    file = folder / "program.py"
    file.write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, timeout=300, check=False
    )


def run(folder: Path, target: str, backend: str, how: str, block: int = 1) -> str:
    """What the program prints."""
    before, call = CALLS[how]
    text = PROGRAM.replace("BLOCK", str(block)).replace("TARGET", f"target={target!r}")
    text = text.replace("BACKEND", repr(backend)).replace("BEFORE", before).replace("CALL", call)
    done = program(folder, text)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
@pytest.mark.parametrize(
    ("backend", "how"), [("python", "main thread"), *(("auto", how) for how in CALLS)]
)
def test_an_endless_kernel_ends_at_an_interrupt(tmp_path: Path, backend: str, how: str) -> None:
    found = run(tmp_path, "cpu", backend, how)
    assert found.count("ended") >= 2
    assert ("noted" in found) == (how == "own handler")


@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
def test_an_interrupt_after_overlapping_kernels_reaches_the_process(tmp_path: Path) -> None:
    done = program(tmp_path, OVERLAPPING)
    assert done.stdout.split() == ["interrupted"], done.stderr[-2000:]


@pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")
def test_an_endless_kernel_in_the_emulator_ends_at_an_interrupt(tmp_path: Path) -> None:
    assert run(tmp_path, "cuda -arch=sm_80", "emulator", "main thread", 32).count("ended") == 2


@pytest.fixture
def default_handler() -> Iterator[None]:
    """Python's handler of Ctrl-C, whatever a library that a test imported has put there."""
    other = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, other or signal.default_int_handler)


@pytest.mark.usefixtures("default_handler")
@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
def test_the_handler_of_the_process_is_as_it_was_after_calls() -> None:
    @T.prim_func
    def count(A: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=1):
            while A[0] < 1000:
                A[0] = A[0] + 1

    @T.prim_func
    def plain(A: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=1):
            A[0] = 0

    kernel = tilelang.compile(count, target="cpu")
    before = signal.getsignal(signal.SIGINT)
    helpers = [threading.Thread(target=lambda: kernel(np.zeros(1, np.int32))) for _ in range(4)]
    for helper in helpers:
        helper.start()
    for helper in helpers:
        helper.join()
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert "tl_interrupt" in kernel.get_kernel_source()
    assert "tl_interrupt" not in tilelang.compile(plain, target="cpu").get_kernel_source()
