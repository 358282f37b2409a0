"""Worker processes of the tuner, which are restarted after a crash.

Python's pools start their processes from the program's main module, which fails for a script
without ``if __name__ == "__main__"``, and one crash breaks a pool for good. Here a process runs
:mod:`tilelang.autotuner.worker`: pickled requests on its standard input, pickled answers on a copy
of its standard output.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import selectors
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

from tilelang.autotuner.jobs import Bench, Failure, attempt
from tilelang.env import env
from tilelang.errors import TileTypeError
from tilelang.runtime.tensors import is_torch
from tilelang.target import Target

HEAD = struct.Struct("<Q")  # bytes of the message that follows
_START = 120.0  # seconds until the first answer: a worker may import torch from a slow disk
# With -c, Python would first import modules from the current directory, which is not trusted.
_PROGRAM = "import sys; sys.path[:] = {!a}; from tilelang.autotuner.worker import main; main()"


class Worker:
    """A worker process, started by :meth:`start` or the first request, and restarted after a crash.

    Args:
        cache: the directory of its kernel cache; None for that of this process.
        device: library ("torch" or "cupy") and number of the GPU that it uses.
        target: what it compiles for; None for one that measures.
    """

    def __init__(
        self,
        cache: str | None = None,
        device: tuple[str, int] | None = None,
        target: Target | None = None,
    ) -> None:
        self._cache = cache
        self._ready_for = device, target
        self._process: Any = None
        self._errors: Any = None
        self._getting_ready = False  # the request of its start has no answer yet
        self._lock = threading.RLock()  # a call holds it
        self.starts = 0

    def call(self, name: str, *args: Any, timeout: float | None = None) -> Any:
        """The answer to a request: a method of :class:`Bench`, or "compile_program".

        If the worker dies or is silent for ``timeout`` seconds, the answer is a :class:`Failure`,
        and the next request starts a new process.
        """
        with self._lock:
            self.start()
            refused = self._ready()
            if refused is not None:
                self.close()
                return refused
            return self._ask(name, args, timeout)

    def start(self) -> None:
        """Start the process without waiting for it: the import of Python, this package and the
        library of the device takes seconds."""
        if self._process is not None:
            return
        folders = [os.path.abspath(path) for path in sys.path]
        settings = env.variables()
        settings["TILELANG_CACHE_DIR"] = self._cache or env.TILELANG_CACHE_DIR
        settings["TILELANG_CLEAR_CACHE"] = "0"  # workers pass kernels on through the cache
        if self._cache is not None:
            settings["TILELANG_DISABLE_CACHE"] = "0"
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM.format(folders)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=settings,
            start_new_session=True,  # Ctrl-C interrupts the program only, which ends its workers
        )  # fmt: skip
        self.starts += 1
        self._getting_ready = True
        with contextlib.suppress(BrokenPipeError):  # the answer will be a failure
            self._send(_packed("get_ready", self._ready_for))

    def _ready(self) -> Failure | None:
        """Wait for a process that was just started; returns its failure, if any."""
        if not self._getting_ready:
            return None
        self._getting_ready = False
        answer = self._answer(_START)
        return answer if isinstance(answer, Failure) else None

    def _ask(self, name: str, args: tuple[Any, ...], timeout: float | None) -> Any:
        message = _packed(name, args)
        try:
            self._send(message)
        except BrokenPipeError:
            return self._died()
        return self._answer(timeout)

    def _send(self, message: bytes) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(HEAD.pack(len(message)) + message)
        self._process.stdin.flush()

    def _answer(self, timeout: float | None) -> Any:
        try:
            answer = self._read(timeout)
        except EOFError:
            return self._died()
        except TimeoutError:
            self.close()
            return Failure("timeout", f"no answer in {timeout:g} s")
        return pickle.loads(answer)

    def _read(self, timeout: float | None) -> bytes:
        """The next message.

        Raises:
            EOFError: the process has ended.
            TimeoutError: it takes longer.
        """
        assert self._process is not None and self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        end = None if timeout is None else time.monotonic() + timeout
        received, length = bytearray(), HEAD.size
        with selectors.DefaultSelector() as ready:
            ready.register(pipe, selectors.EVENT_READ)
            while len(received) < length:
                remaining = None if end is None else end - time.monotonic()
                if remaining is not None and (remaining <= 0 or not ready.select(remaining)):
                    raise TimeoutError
                piece = os.read(pipe, 1 << 20)
                if not piece:
                    raise EOFError
                received += piece
                if length == HEAD.size and len(received) >= length:
                    length += HEAD.unpack_from(received)[0]
        return bytes(received[HEAD.size :])

    def _died(self) -> Failure:
        assert self._process is not None
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        self.close()
        reason = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return Failure(
            "crashed", f"the process ended by {reason}" + (f": {lines[-1]}" if lines else "")
        )

    def kill(self) -> None:
        """Kill the process without waiting for its end."""
        process = self._process  # another thread may close it now
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the process. A call that waits in another thread gets a :class:`Failure`."""
        while not self._lock.acquire(timeout=0.05):
            self.kill()  # again, since that call may start the process only now
        process, errors = self._process, self._errors
        self._process, self._getting_ready = None, False
        self._lock.release()
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, errors):
            with contextlib.suppress(BrokenPipeError):  # requests that it did not read
                stream.close()


class _Pickler(pickle.Pickler):
    """Sends tensors of every dtype: what torch pickles of an FP8 tensor cannot be loaded."""

    def reducer_override(self, value: Any) -> Any:
        """Send a tensor of torch by its bytes; pickle anything else as usual."""
        if not is_torch(value):
            return NotImplemented
        content = io.BytesIO()
        sys.modules["torch"].save(value, content)
        return _tensor, (content.getvalue(),)


def _tensor(content: bytes) -> Any:
    import torch

    return torch.load(io.BytesIO(content), weights_only=False)


def pickled(value: Any) -> bytes:
    """A message between the program and a worker."""
    message = io.BytesIO()
    _Pickler(message, protocol=5).dump(value)
    return message.getvalue()


def _packed(name: str, args: tuple[Any, ...]) -> bytes:
    """A request.

    Raises:
        TileTypeError: it cannot be sent.
    """
    try:
        return pickled((name, args))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise TileTypeError(
            f"the kernel or its arguments cannot be sent to the worker process: {error}",
            hint="pass isolate=False to tune in this process",
        ) from None


class Here:
    """A :class:`Worker` in this process; ``timeout`` has no effect."""

    def __init__(self) -> None:
        self._bench = Bench()

    def start(self) -> None:
        """Nothing: this process runs."""

    def call(self, name: str, *args: Any, timeout: float | None = None) -> Any:
        """The answer to a request."""
        return attempt(getattr(self._bench, name), *args)

    def kill(self) -> None:
        """Do nothing: this process continues."""

    def close(self) -> None:
        """Release the kernels."""
        self._bench = Bench()
