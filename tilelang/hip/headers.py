"""The device headers of HIP kernels, name -> text."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from tilelang.cuda.toolchain import INCLUDE_DIR as CUDA_INCLUDE_DIR

INCLUDE_DIR = Path(__file__).resolve().parent / "include"
# Headers of CUDA's kernels that are plain C++.
SHARED_HEADERS = (
    "tl_atomic_forms.h", "tl_atomic_pairs.h", "tl_basic.h", "tl_convert.h", "tl_float.h",
    "tl_float16.h", "tl_half.h", "tl_launch.h", "tl_power.h", "tl_random.h", "tl_random_steps.h",
    "tl_reduce.h", "tl_words.h",
)  # fmt: skip
# Those that they include -> our own in place of them.
_REPLACED = {
    "tl_types.h": "tl_hip.h", "tl_warp.h": "tl_hip.h", "tl_libm.h": "tl_hip_math.h",
}  # fmt: skip


def plain(text: str) -> str:
    """``text`` without the parts under ``#if TL_ARCH >= ...``: instructions of NVIDIA's."""
    lines: list[str] = []
    branches: list[str] = []  # of the conditions around a line: "drop", "keep" or ""
    for line in text.splitlines():
        word = line.split(" ")[0]
        own = False  # whether the line begins or ends such a branch
        if word in ("#if", "#ifdef", "#ifndef"):
            branches.append("drop" if line.startswith("#if TL_ARCH >=") else "")
            own = branches[-1] != ""
        elif word == "#else" and branches[-1]:
            branches[-1] = "keep"
            own = True
        elif word == "#endif":
            own = branches.pop() != ""
        if not own and "drop" not in branches:
            lines.append(line)
    return "\n".join(lines) + "\n"


@lru_cache(maxsize=1)
def _texts() -> tuple[tuple[str, str], ...]:
    texts = {
        name: plain((CUDA_INCLUDE_DIR / name).read_text(encoding="utf-8"))
        for name in SHARED_HEADERS
    }
    own = sorted(INCLUDE_DIR.glob("*.h"))
    texts.update((file.name, file.read_text(encoding="utf-8")) for file in own)
    return (*texts.items(), *((name, f'#include "{own}"\n') for name, own in _REPLACED.items()))


def device_headers() -> dict[str, str]:
    """Our device headers, name -> text: part of what generated code means."""
    return dict(_texts())
