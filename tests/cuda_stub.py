"""A driver that only takes notes, and tensors that claim to be on a GPU.

The driver is a small C library with the functions of ``libcuda`` that are used. It writes down
every call as a line of text; launches show the bytes of their parameters. In a process with the
variable STUB_KERNELS it has kernels of all names, whose time is that of a block for each, and which
do what their names say: "abort", "hang", or "illegal", after which the device is lost. The tensors are torch
tensors in host memory whose class reports a GPU, through every door by which launchers look.
"""

from __future__ import annotations

import ctypes
import struct
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilelang.cpu.toolchain import Compiler

SOURCE = Path(__file__).with_suffix(".c").read_text(encoding="utf-8")


class Stub:
    """The loaded library. Each one has its own notes."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.lib = ctypes.CDLL(self.path)
        self.lib.stub_notes.restype = ctypes.c_char_p
        self.lib.stub_current.restype = ctypes.c_void_p

    def declare(self, name: str, *sizes: int) -> None:
        """A kernel with parameters of these sizes."""
        self.lib.stub_declare(name.encode(), len(sizes), (ctypes.c_int * 64)(*sizes))

    def fail(self, name: str, code: int) -> None:
        """Let a function answer with ``code`` from now on."""
        self.lib.stub_fail(name.encode(), code)

    def take(self) -> list[str]:
        """The notes, which are forgotten."""
        found = self.lib.stub_notes().decode().splitlines()
        self.lib.stub_forget()
        return found

    def launches(self) -> list[Launch]:
        """The launches among the notes, which are forgotten."""
        return [Launch(line) for line in self.take() if line.startswith("launch ")]


class Launch:
    """One launch: what the driver was given."""

    def __init__(self, line: str) -> None:
        _, self.kernel, grid, block, shared, stream, device, attributes, args = line.split()
        self.grid = tuple(map(int, grid.split(",")))
        self.block = tuple(map(int, block.split(",")))
        self.shared, self.stream, self.device = int(shared), int(stream), int(device)
        self.attributes = (
            {}
            if attributes == "-"
            else dict(
                (int(item.split(":")[0]), tuple(map(int, item.split(":")[1].split(","))))
                for item in attributes.split(";")
            )
        )
        self.args = [] if args == "-" else [bytes.fromhex(item) for item in args.split(",")]

    def values(self, formats: str) -> list[Any]:
        """The parameters, decoded by one letter of ``struct`` each."""
        return [struct.unpack("<" + letter, data)[0] for letter, data in zip(formats, self.args)]


def build(compiler: Compiler, folder: Path) -> Stub:
    """A fresh stub."""
    path = folder / "libcuda_stub.so"
    path.write_bytes(compiler.compile_shared(SOURCE, ("-O1",)))
    return Stub(path)


# -- tensors ---------------------------------------------------------------------------------------
STREAM = 5  # of every device, plus its number


class _Dl(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class _Exchange(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("older", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p), ("from_object", ctypes.c_void_p),
        ("to_object", ctypes.c_void_p), ("view", ctypes.c_void_p), ("stream", ctypes.c_void_p),
    ]  # fmt: skip


_CODES = {"float": 2, "int": 0, "uint": 1, "bfloat": 4, "bool": 6}


@lru_cache(maxsize=1)
def tensor_class() -> Any:
    """A subclass of ``torch.Tensor`` that says it is on a GPU."""
    import torch

    def view(obj: Any, out: Any) -> int:
        name = str(obj.dtype).removeprefix("torch.")
        bits = obj.element_size() * 8
        obj.held = (ctypes.c_int64 * (2 * obj.ndim))(*obj.shape, *obj.stride())
        dl = _Dl.from_address(out)
        dl.data, dl.device_type, dl.device_id = obj.data_ptr(), 2, obj.device.index
        dl.ndim, dl.code = obj.ndim, _CODES[name.rstrip("0123456789")]
        dl.bits, dl.lanes, dl.byte_offset = bits, 1, 0
        dl.shape = ctypes.addressof(obj.held)
        dl.strides = ctypes.addressof(obj.held) + 8 * obj.ndim
        return 0

    def stream(kind: int, device: int, out: Any) -> int:
        ctypes.c_void_p.from_address(out).value = STREAM + device
        return 0 if kind == 2 else 1

    first = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(view)
    second = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.c_void_p)(stream)
    table = _Exchange(1, 3, None, None, None, None)
    table.view = ctypes.cast(first, ctypes.c_void_p)
    table.stream = ctypes.cast(second, ctypes.c_void_p)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    name = b"dlpack_exchange_api"

    class OnGpu(torch.Tensor):
        index = 0
        keep = (first, second, table, name)
        __dlpack_c_exchange_api__ = new(ctypes.addressof(table), name, None)

        @property
        def device(self) -> Any:
            return torch.device("cuda", self.index)

    return OnGpu


def on_gpu(tensor: Any, index: int = 0) -> Any:
    """``tensor`` as one that claims to be on GPU number ``index``."""
    found = tensor.as_subclass(tensor_class())
    found.index = index
    return found


def fake_torch(monkeypatch: Any) -> None:
    """Let torch allocate such tensors, and have streams."""
    import torch

    original = torch.empty

    def empty(*shape: Any, device: Any = None, **keywords: Any) -> Any:
        where = torch.device("cpu" if device is None else device)
        made = original(*shape, **keywords)
        return on_gpu(made, where.index or 0) if where.type == "cuda" else made

    class Stream:
        def __init__(self, index: int) -> None:
            self.cuda_stream = STREAM + index

    monkeypatch.setattr(torch, "empty", empty)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
