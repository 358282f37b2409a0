"""Names, messages and files of the user in generated text: whatever they hold, it is text."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from written import executed

import tilelang
import tilelang.language as T
from tilelang.codegen.names import RESERVED, Names
from tilelang.codegen.text import comment, quote, quote_format, source_label
from tilelang.cpu.module import INCLUDE_DIR, INCLUDES
from tilelang.cpu.toolchain import find_compiler
from tilelang.emulator.compilers import find_cxx
from tilelang.errors import DeviceAssertError

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
needs_cxx = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")

NASTY = [
    "", "plain", '"', "\\", "\\\\n", "a\nb", "\r\n", "\x00", "\x01\x7f", "\U0001f600", "??/", "??'",
    "%s %n %d", "*/ /*", "// \\", "\\\n#error", '"); abort(); ("', "\u2028", "\ud800", "\N{DEGREE SIGN}1",
    "7\x018", "\x1b[31m", 'a\nsystem("true");\n#pragma foo',
]  # fmt: skip
WORDS = (
    *sorted(RESERVED), "linux", "unix", "i386", "M_PI", "EOF", "NULL", "stdin", "BUFSIZ", "INT_MAX",
    "HUGE_VAL", "__FILE__", "_Bool", "_Complex", "__LINE__", "TL_EXPORT", "tl_max_i32", "FILE",
    "P_tmpdir", "_OPENMP", "time", "read", "u8", "L", "R", "U", "main", "std", "half", "float4",
    "threadIdx", "blockIdx", "warpSize", "dim3", "cudaError", "size", "\u00e9t\u00e9", "e\u0301", "grö\u00dfe", "ﬁ",
)  # fmt: skip


def shown(text: str) -> bytes:
    """What a C program prints for ``text``."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace")


def build(tmp_path: Path, source: str, flags: list[str], name: str = "main.c") -> Path:
    """The program of ``source``, compiled without warnings about its text."""
    compiler = find_compiler() if name.endswith(".c") else find_cxx()
    assert compiler is not None
    path = tmp_path / name
    path.write_text(source, encoding="utf-8")
    out = tmp_path / "main"
    command = [*compiler.command, *flags, str(path), "-o", str(out), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    return out


# -- texts --------------------------------------------------------------------------------------
@needs_compiler
@settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(texts=st.lists(st.text(), min_size=100, max_size=100))
@pytest.mark.parametrize("standard", ["c11", "gnu11"])
def test_a_quoted_text_prints_as_it_was(tmp_path: Path, standard: str, texts: list[str]) -> None:
    texts = [*NASTY, *texts]
    puts = "\n".join(
        f'    // {comment(text)}\n    printf("%s{quote_format(text)}%c", {quote(text)}, 10);'
        for text in texts
    )
    program = build(
        tmp_path, f"#include <stdio.h>\nint main(void) {{\n{puts}\n    return 0;\n}}\n",
        [f"-std={standard}", "-Werror=comment", "-Werror=trigraphs", "-Werror=format"],
    )  # fmt: skip
    found = subprocess.run([str(program)], capture_output=True, check=True).stdout
    assert found == b"".join(shown(text) * 2 + b"\n" for text in texts)


@given(text=st.text())
def test_comments_and_names_of_files_are_one_plain_line(text: str) -> None:
    for made in (comment(text), source_label(text)):
        assert made.isascii() and made.isprintable() or not made
        assert "\\" not in made and "?" not in made
    assert " " not in source_label(text) and ":" not in source_label(text)


# -- names --------------------------------------------------------------------------------------
def macros() -> list[str]:
    """What the C compiler and the headers of generated text define without parameters."""
    compiler = find_compiler()
    assert compiler is not None
    source = "".join(f'#include "{name}"\n' for name in INCLUDES)
    done = subprocess.run(
        [*compiler.command, "-I", str(INCLUDE_DIR), "-dM", "-E", "-x", "c", "-"],
        input=source, capture_output=True, text=True, check=True,
    )  # fmt: skip
    words = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("#define")]
    return [word for word in words if "(" not in word]


@needs_compiler
def test_every_macro_and_keyword_gets_another_name(tmp_path: Path) -> None:
    names = Names()
    found = macros()
    assert "linux" in found or "EOF" in found
    lines = [f"    const int {names.fresh(word)} = 1;" for word in {*found, *WORDS}]
    text = "\n".join(['#include "tl_math.h"', '#include "tl_block.h"', "int main(void) {", *lines])
    build(tmp_path, text + "\n    return 0;\n}\n", ["-w", f"-I{INCLUDE_DIR}"])


# -- programs -----------------------------------------------------------------------------------
def program(name: str, tensor: str, message: str, file: str) -> Any:
    """A traced function with these names, from a file of that name, that fails with the message."""
    source = (
        "@T.prim_func\n"
        f"def {name}({tensor}: T.Tensor((8,), 'int32'), n: T.int32):\n"
        "    with T.Kernel(1, threads=8):\n"
        f"        T.device_assert(n > 0, MESSAGE)\n"
        f"        {tensor}[T.get_thread_binding()] = n\n"
    )
    return executed(source, file, MESSAGE=message)[name]


PROGRAMS = [
    ("linux", "M_PI", NASTY[15], "a\n#error here\n"),
    ("kernel", "stdin", "\U0001f600 \r \x01", 'a\\'),
    ("delete", "threadIdx", "%s%n", "b ??/"),
    ("main", "__LINE__", "\ud800", "c*/ d:e"),
    ("float4", "été", "a\nb", '"x"'),
    ("template", "args", "//\\", "\u2028"),
]  # fmt: skip


@needs_cxx
@needs_compiler
@pytest.mark.parametrize(("name", "tensor", "message", "file"), PROGRAMS)
def test_programs_with_reserved_names_run(name: str, tensor: str, message: str, file: str) -> None:
    func = program(name, tensor, message, file)
    emulated = {"target": "cuda -arch=sm_80", "execution_backend": "emulator"}
    kernel = tilelang.compile(func, target="cpu")
    for made in (kernel, tilelang.compile(func, **emulated)):  # type: ignore[call-overload]  # options by name
        out = np.zeros(8, np.int32)
        made(out, 3)
        np.testing.assert_array_equal(out, 3)
    with pytest.raises(DeviceAssertError) as caught:
        kernel(out, 0)
    told = shown(message).decode()
    assert str(caught.value).encode("utf-8", "backslashreplace").decode().startswith(
        f"Device assert failed: {told}"
    ) or message in str(caught.value)


@needs_compiler
def test_printed_lines_of_blocks_and_threads_are_those_of_the_interpreter(
    capfd: pytest.CaptureFixture[str],
) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((2,), "int32")):
        with T.Kernel(2, threads=(2, 2)):
            T.print(
                T.get_thread_binding() * 10 + T.get_thread_binding(1), msg='100% "\\ \U0001f600'
            )
            s = T.alloc_shared((2,), "int32")
            T.copy(A, s)
            T.print(s, msg="%d%s")
            T.print(A[0])
            T.print(msg="here")

    printed = []
    for way in ({"execution_backend": "interpret"}, {"target": "cpu"}):
        tilelang.compile(kernel, **way)(np.array([5, 6], np.int32))  # type: ignore[call-overload]  # options by name
        ctypes.CDLL(None).fflush(None)
        printed.append(sorted(capfd.readouterr().out.splitlines()))
    assert printed[0] == printed[1]  # blocks run on several cores: their order is open
    assert len(printed[0]) == 2 * (4 + 2 + 4 + 4)
    out = "\n".join(printed[1])
    assert "msg='100% \"\\ \U0001f600' BlockIdx=(0, 0, 0)" in out and "msg='%d%s'" in out
