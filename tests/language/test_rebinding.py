"""Names that branches and loops of the program bind: the value of every way, or an error.

Each program is the body of a kernel of one thread with the inputs ``A = [1, 5, 2, 9]`` and
``n = 3`` and the output ``O`` of four zeros; beside it stands what numpy or plain Python leaves in
``O``, or how the error starts. All executors share the traced program, so the interpreter runs all
of them and the others a part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from columns import as_known
from written import executed

import tilelang
import tilelang.language as T
from tilelang.errors import TileNameError, TileWarning

A = np.array([1, 5, 2, 9], np.int32)

RIGHT: dict[str, tuple[str, list[int]]] = {
    "a value used in its own iteration": (
        "for t in T.serial(4):\n    v = A[t] + 1\n    v = v * 2\n    O[t] = v",
        [4, 12, 6, 20],
    ),
    "a number used in its own iteration": (
        "v = 9\nfor t in T.serial(4):\n    v = 2\n    O[t] = v",
        [2, 2, 2, 2],
    ),
    "a value used in its own branch": (
        "for t in T.serial(4):\n    if A[t] > 2:\n        v = A[t] * 2\n        O[t] = v",
        [0, 10, 0, 18],
    ),
    "one name on both sides, used on both": (
        "for t in T.serial(4):\n    if A[t] > 2:\n        v = 2\n        O[t] = v\n"
        "    else:\n        v = 7\n        O[t] = v",
        [7, 2, 7, 2],
    ),
    "the second side sees the value from before": (
        "v = 1\nfor t in T.serial(4):\n    w = v\n    if A[t] > 2:\n        w = 5\n        O[t] = w\n"
        "    else:\n        O[t] = w",
        [1, 5, 1, 5],
    ),
    "the second side sees the device value from before": (
        "for t in T.serial(4):\n    w = A[t]\n    if A[t] > 2:\n        w = w * 10\n        O[t] = w\n"
        "    else:\n        O[t] = w",
        [1, 50, 2, 90],
    ),
    "both sides agree": (
        "for t in T.serial(4):\n    if A[t] > 2:\n        v = 3\n        O[t] = 1\n"
        "    else:\n        v = 3\n    O[t] += v",
        [3, 4, 3, 4],
    ),
    "a branch binds what the name holds already": (
        "v = 3\nfor t in T.serial(4):\n    if A[t] > 2:\n        v = 3\n    O[t] = v",
        [3, 3, 3, 3],
    ),
    "bound on one side only, used under the same condition": (
        "for t in T.serial(4):\n    if A[t] > 2:\n        v = 3\n    if A[t] > 2:\n        O[t] = v",
        [0, 3, 0, 3],
    ),
    "bound anew after the branch": (
        "for t in T.serial(4):\n    if A[t] > 2:\n        v = 3\n    else:\n        v = 4\n"
        "    v = 5\n    O[t] = v",
        [5, 5, 5, 5],
    ),
    "the other side leaves the iteration": (
        "for t in T.serial(4):\n    v = 1\n    if A[t] > 2:\n        v = 3\n        O[t] = v\n"
        "        continue\n    O[t] = v",
        [1, 3, 1, 3],
    ),
    "the other side leaves the loop": (
        "for t in T.serial(4):\n    v = 1\n    if A[t] == 2:\n        v = 3\n        O[3] = v\n"
        "        break\n    O[t] = v",
        [1, 1, 0, 3],
    ),
    "a number bound in a loop that surely runs": (
        "v = 1\nfor t in T.serial(4):\n    v = 6\nO[0] = v",
        [6, 0, 0, 0],
    ),
    "a loop that never runs": ("v = 1\nfor t in T.serial(0):\n    v = 6\nO[0] = v", [1, 0, 0, 0]),
    "an index bound by a second loop": (
        "for t in T.serial(2):\n    O[t] = t + 1\nfor t in T.serial(2, 4):\n    O[t] = t",
        [1, 2, 2, 3],
    ),
    "a condition known while tracing": (
        "flag = True\nif flag:\n    v = 2\nelse:\n    v = 'text'\nfor t in T.serial(4):\n    O[t] = v",
        [2, 2, 2, 2],
    ),
    "a known condition in a loop": (
        "wide = False\nv = 4\nfor t in T.serial(4):\n    O[t] = v\n    if wide:\n        v = v * 2",
        [4, 4, 4, 4],
    ),
    "a variable is stored to": (
        "v = T.alloc_var('int32', 0)\nfor t in T.serial(4):\n    if A[t] > 2:\n        v = A[t]\n"
        "    O[t] = v",
        [0, 5, 5, 9],
    ),
    "a variable is updated": (
        "v = T.alloc_var('int32', 0)\nfor t in T.serial(4):\n    v += A[t]\n    O[t] = v",
        [1, 6, 8, 17],
    ),
    "a number that a loop of one iteration binds anew": (
        "v = 1\nfor t in T.serial(1):\n    O[0] = v\n    v = 6\nO[1] = v",
        [1, 6, 0, 0],
    ),
    "swapped in a branch and used there": (
        "for t in T.serial(4):\n    a, b = A[t], t\n    if A[t] > 2:\n        a, b = b, a\n"
        "        O[t] = a * 10 + b",
        [0, 15, 0, 39],
    ),
    "a tile chosen while tracing": (
        "s = T.alloc_local((4,), 'int32')\nother = T.alloc_local((4,), 'int32')\nuse = other\n"
        "if 4 > 3:\n    use = s\nfor t in T.serial(4):\n    use[t] = A[t]\n"
        "for t in T.serial(4):\n    O[t] = s[t]",
        [1, 5, 2, 9],
    ),
    "a loop variable of a comprehension": (
        "for t in T.serial(4):\n    v = [A[t] * k for k in range(3)]\n    O[t] = v[2]",
        [2, 10, 4, 18],
    ),
    "a helper that reads a name of its iteration": (
        "for t in T.serial(4):\n    v = A[t]\n    def twice():\n        return v * 2\n    O[t] = twice()",
        [2, 10, 4, 18],
    ),
    "a list made in the iteration": (
        "for t in T.serial(4):\n    parts = [0, 0]\n    parts[0] = A[t]\n    O[t] = parts[0]",
        [1, 5, 2, 9],
    ),
    "a new name in nested branches": (
        "for t in T.serial(4):\n    if A[t] > 1:\n        if A[t] > 4:\n            v = 8\n"
        "            O[t] = v\n        else:\n            v = 9\n            O[t] = v",
        [0, 8, 9, 8],
    ),
    "a parallel loop with a name of its own": (
        "for t in T.Parallel(4):\n    v = A[t] + 1\n    O[t] = v * 2",
        [4, 12, 6, 20],
    ),
}

DEPENDS = "`v` depends on a condition that is known only at run time"
OFTEN = "`v` depends on how often the loop runs"
UPDATED = "the immutable value `v` is updated in a loop"
OUTSIDE = "`v` is used outside its defining region"
# How an error starts -> the programs that get it.
WRONG: dict[str, dict[str, str]] = {
    DEPENDS: {
        "numbers of two sides": (
            "for t in T.serial(4):\n    if A[t] > 2:\n        v = 2\n    else:\n        v = 7\n    O[t] = v"
        ),
        "values of two sides": (
            "for t in T.serial(4):\n    if A[t] > 2:\n        v = A[t]\n    else:\n        v = A[0]\n"
            "    O[t] = v"
        ),
        "a number replaced in a branch": (
            "for t in T.serial(4):\n    v = 1\n    if A[t] > 2:\n        v = 2\n    O[t] = v"
        ),
        "a value replaced in a branch": (
            "for t in T.serial(4):\n    v = A[t]\n    if v > 2:\n        v = v * 2\n    O[t] = v"
        ),
        "augmented in a branch": "v = 1\nif n > 2:\n    v += 1\nO[0] = v",
        "one side of an elif": (
            "v = 1\nif n > 5:\n    O[1] = 1\nelif n > 2:\n    v = 2\nelse:\n    O[1] = 2\nO[0] = v"
        ),
        "a tuple in a branch": "v, w = 1, 2\nif n > 2:\n    v, w = w, v\nO[0] = v",
        "a truth value": "v = False\nif n > 2:\n    v = True\nif v:\n    O[0] = 1",
        "a text": "v = 'a'\nif n > 2:\n    v = 'b'\nif v == 'b':\n    O[0] = 1",
        "None": "v = None\nif n > 2:\n    v = 3\nif v is not None:\n    O[0] = 1",
        "a tile": "s = T.alloc_local((4,), 'int32')\nv = A\nif n > 2:\n    v = s\nO[0] = v[0]",
        "read by a helper": (
            "v = 1\ndef twice():\n    return v * 2\nif n > 2:\n    v = 2\nO[0] = twice()"
        ),
        "read by a lambda": "v = 1\ntwice = lambda: v * 2\nif n > 2:\n    v = 2\nO[0] = twice()",
        "read in a comprehension": "v = 1\nif n > 2:\n    v = 2\nO[0] = sum([v for k in range(2)])",
        "under T.If": "v = 1\nwith T.If(n > 2):\n    with T.Then():\n        v = 2\nO[0] = v",
    },
    OFTEN: {
        "in one iteration of several": (
            "v = 0\nfor t in T.serial(4):\n    if A[t] == 5:\n        v = 1\nO[0] = v"
        ),
        "before a break": (
            "v = 0\nfor t in T.serial(4):\n    if A[t] == 5:\n        v = 1\n        break\nO[0] = v"
        ),
        "a loop that may not run": "v = 1\nfor t in T.serial(n):\n    v = 6\nO[0] = v",
        "a loop of other bounds": "v = 1\nfor t in range(n, 9):\n    v = 6\nO[0] = v",
        "a while loop": (
            "k = T.alloc_var('int32', 0)\nv = 1\nwhile k < n:\n    v = 6\n    k += 1\nO[0] = v"
        ),
    },
    UPDATED: {
        "carried over iterations": "v = A[0]\nfor t in T.serial(4):\n    O[t] = v\n    v = A[t]",
        "a number carried over iterations": "v = 0\nfor t in T.serial(4):\n    O[t] = v\n    v = 5",
        "a counter": "v = 0\nfor t in T.serial(4):\n    v = v + 1\nO[0] = v",
        "a counter, augmented": "v = 0\nfor t in T.serial(4):\n    v += 1\n    O[t] = v",
        "a counter in a pipelined loop": (
            "v = 0\nfor t in T.Pipelined(4, num_stages=2):\n    v += 1\n    O[t] = v"
        ),
        "a counter in an unrolled loop": "v = 0\nfor t in T.unroll(4):\n    v += 1\n    O[t] = v",
        "a counter in a parallel loop": "v = 0\nfor t in T.Parallel(4):\n    v += 1\n    O[t] = v",
        "a counter in a while loop": (
            "k = T.alloc_var('int32', 0)\nv = 0\nwhile k < 4:\n    k += 1\n    v += 1\n    O[k - 1] = v"
        ),
        "a counter in the condition of a while loop": (
            "v = 0\nwhile A[v] < 9:\n    v = v + 1\nO[0] = v"
        ),
        "carried over a continue": (
            "v = 0\nfor t in T.serial(4):\n    O[t] = v\n    if A[t] > 2:\n        v = 1\n        continue"
        ),
        "carried over a grid": "v = 0\nfor t, u in T.grid(2, 2):\n    O[t * 2 + u] = v\n    v = 3",
        "a truth value turned": (
            "v = True\nfor t in T.serial(4):\n    if v:\n        O[t] = 1\n    v = not v"
        ),
        "a list replaced": "v = [1]\nfor t in T.serial(4):\n    O[t] = v[0]\n    v = [2]",
        "two tiles exchanged": (
            "v = T.alloc_local((4,), 'int32')\nw = T.alloc_local((4,), 'int32')\n"
            "for t in T.serial(4):\n    v[t] = w[t]\n    v, w = w, v"
        ),
        "read by a helper in the next iteration": (
            "v = 1\ndef twice():\n    return v * 2\nfor t in T.serial(4):\n    O[t] = twice()\n    v = 2"
        ),
        "in an inner loop, for the outer": (
            "v = 0\nfor t in T.serial(2):\n    O[t] = v\n    for u in T.serial(2):\n        v = 4"
        ),
        "a running maximum": (
            "v = 0\nfor t in T.serial(4):\n    if A[t] > v:\n        v = A[t]\n        O[t] = v"
        ),
        "a counter in a branch": (
            "v = 0\nfor t in T.serial(4):\n    if A[t] > 2:\n        v = v + 1\n        O[t] = v"
        ),
        "a counter in a branch, over another name": (
            "v = 0\nfor t in T.serial(4):\n    if A[t] > 2:\n        w = v + 1\n        v = w\n"
            "        O[t] = v"
        ),
        "two names in turns": (
            "v, w = 1, 2\nfor t in T.serial(4):\n    if A[t] > 2:\n        v, w = w, v\n"
            "        O[t] = v * 10 + w"
        ),
        "counted after a continue that reads it": (
            "v = 0\nfor t in T.serial(4):\n    if A[t] < v:\n        continue\n"
            "    for u in T.serial(2):\n        v = A[t]\n        O[t] += v"
        ),
        "the condition of a while loop": (
            "v = 0\nwhile A[0] > v:\n    if n > 2:\n        v = A[1]\n        O[0] = v"
        ),
        "read behind an inner loop": (
            "v = 0\nfor t in T.serial(4):\n    O[t] = v\n    for u in T.serial(2):\n        v = 4\n"
            "        O[t] += v\n    O[t] += v"
        ),
        "read behind an inner loop by a helper": (
            "v = 0\ndef get():\n    return v\nfor t in T.serial(4):\n    O[t] = v\n"
            "    for u in T.serial(2):\n        v = 4\n        O[t] += v\n    O[t] += get()"
        ),
        "bound alike in a branch and in the loop's body": (
            "v = 0\nfor t in T.serial(4):\n    O[t] = v\n    v = 3\n    if A[t] > 2:\n        v = 3\n"
            "        O[t] = v"
        ),
    },
    OUTSIDE: {
        "a value of the last iteration": "for t in T.serial(4):\n    v = A[t]\nO[0] = v",
    },
    "the item [0] of a list is bound anew in a branch or loop": {
        "an item of a list": (
            "v = [0]\nfor t in T.serial(4):\n    if A[t] > 2:\n        v[0] = 1\n    O[t] = v[0]"
        ),
    },
    "the nonlocal name `v` is bound anew in a branch or loop": {
        "a nonlocal name": (
            "v = 0\n@T.macro\ndef step():\n    nonlocal v\n    v = v + 1\n"
            "for t in T.serial(4):\n    step()\n    O[t] = v"
        ),
    },
}

# An inner block binds `v` for itself; the next iteration reads the outer one again: a remark says so.
SHADOWED: dict[str, tuple[str, list[int], str]] = {
    "in a branch, beside the other": (
        "v = A[0]\nfor t in T.serial(4):\n    if A[t] > 2:\n        v = A[t] * 2\n        O[t] = v\n"
        "    else:\n        O[t] = v",
        [1, 10, 1, 18],
        "the value from before the loop",
    ),
    "in an inner loop": (
        "v = 7\nfor t in T.serial(2):\n    O[t] = v\n    for u in T.serial(2):\n        v = A[u]\n"
        "        O[2 + u] = v",
        [7, 7, 1, 5],
        "7",
    ),
    "a target of an inner loop": (
        "v = 7\nfor t in T.serial(2):\n    O[t] = v\n    for v in T.serial(2, 4):\n        O[v] = v",
        [7, 7, 2, 3],
        "7",
    ),
    "in a while loop": (
        "v = A[2]\nk = T.alloc_var('int32', 0)\nwhile k < 4:\n    O[k] = v\n    if A[k] > 4:\n"
        "        v = A[k]\n        O[k] = v\n    k += 1",
        [2, 5, 2, 9],
        "the value from before the loop",
    ),
    "one of a tuple": (
        "v = 7\nfor t in T.serial(4):\n    if A[t] > 2:\n        v, w = A[t], v * 0 + 1\n"
        "        O[t] = v + w\n    else:\n        O[t] = v",
        [7, 6, 7, 10],
        "7",
    ),
    "in nested targets": (
        "v = 7\nfor t in T.serial(4):\n    if A[t] > 2:\n        (v, (w, x)) = A[t], (1, 2)\n"
        "        O[t] = v + w + x\n    else:\n        O[t] = v",
        [7, 8, 7, 12],
        "7",
    ),
    "a starred target": (
        "v = 7\nfor t in T.serial(4):\n    if A[t] > 2:\n        w, *v = A[t], 2, 3\n"
        "        O[t] = v[1]\n    else:\n        O[t] = v",
        [7, 3, 7, 3],
        "7",
    ),
    "annotated": (
        "v = 7\nfor t in T.serial(4):\n    O[t] = v\n    if A[t] > 2:\n        v: int = A[t]\n"
        "        O[t] += v",
        [7, 12, 7, 16],
        "7",
    ),
    "a helper": (
        "def v():\n    return 7\nfor t in T.serial(4):\n    O[t] = v()\n    if A[t] > 2:\n"
        "        def v():\n            return 2\n        O[t] = v()",
        [7, 2, 7, 2],
        "an object of type function",
    ),
    "read by a comprehension": (
        "v = 7\nfor t in T.serial(4):\n    O[t] = v\n    if A[t] > 2:\n        v = A[t]\n"
        "        O[t] = sum([v for k in range(2)])",
        [7, 10, 7, 18],
        "7",
    ),
    "before it leaves the iteration": (
        "v = 7\nfor t in T.serial(4):\n    if A[t] > 2:\n        v = A[t]\n        O[t] = v\n"
        "        continue\n    O[t] = v",
        [7, 5, 7, 9],
        "7",
    ),
    "under T.If": (
        "v = 7\nfor t in T.serial(4):\n    O[t] = v\n    with T.If(A[t] > 2):\n        with T.Then():\n"
        "            v = A[t]\n            O[t] = v",
        [7, 5, 7, 9],
        "7",
    ),
    "in T.Parallel": (
        "v = 7\nfor t in T.Parallel(4):\n    if A[t] > 2:\n        v = A[t]\n        O[t] = v\n"
        "    else:\n        O[t] = v",
        [7, 5, 7, 9],
        "7",
    ),
    "a tile, bound in the loop's own body": (
        "v = T.alloc_local((4,), 'int32')\nfor t in T.serial(4):\n    v[t] = A[t]\n"
        "for t in T.serial(4):\n    w = v[t] + 1\n    v = w * 2\n    O[t] = v",
        [4, 12, 6, 20],
        "the buffer `v`",
    ),
}


@pytest.mark.parametrize("name", SHADOWED)
def test_what_an_inner_block_binds_ends_with_it(name: str) -> None:
    body, want, read = SHADOWED[name]
    told = (
        "`v` is bound anew here and ends with this block: other blocks and later iterations "
        f"still read {read}"
    )
    with pytest.warns(TileWarning) as remarks:
        func = traced(body, name)
    assert {str(item.message) for item in remarks} == {told}
    assert {item.filename for item in remarks} == {f"<{name}>"}
    for how in WAYS if name in list(SHADOWED)[:2] else WAYS[:1]:
        assert outputs(func, **how) == want


WAYS: list[dict[str, Any]] = [
    {"target": "cpu", "execution_backend": "interpret"},
    {"target": "cpu"},
    {"target": "cuda -arch=sm_90a", "execution_backend": "emulator"},
]


def traced(body: str, name: str, head: str = "@T.prim_func") -> Any:
    """The kernel around ``body``."""
    lines = [
        "import tilelang",
        "import tilelang.language as T",
        "",
        head,
        "def f(A: T.Tensor((4,), 'int32'), n: T.int32, O: T.Tensor((4,), 'int32')):",
        "    with T.Kernel(1, threads=1):",
        *("        " + line for line in body.splitlines()),
    ]
    file = f"<{name}>"
    text = "\n".join(lines) + "\n"
    return executed(text, file)["f"]


def outputs(func: Any, **how: Any) -> list[int]:
    out = np.zeros(4, np.int32)
    tilelang.compile(func, **how)(A, 3, out)
    return out.tolist()


@pytest.mark.parametrize("name", RIGHT)
def test_a_name_has_the_value_of_every_way(name: str) -> None:
    body, want = RIGHT[name]
    func = traced(body, name)
    assert outputs(func, target="cpu", execution_backend="interpret") == want


ERRORS = [(start, name) for start, bodies in WRONG.items() for name in bodies]


@pytest.mark.parametrize(("start", "name"), ERRORS)
def test_a_name_whose_ways_differ_is_an_error(start: str, name: str) -> None:
    body = WRONG[start][name]
    with pytest.raises(TileNameError) as caught:
        traced(body, name)
    assert str(caught.value).splitlines()[0] == start
    text = str(caught.value)
    assert "T.alloc_var" in text or "defining region" in text
    assert f"--> <{name}>:" in text


@pytest.mark.parametrize(
    "name", ["the second side sees the value from before", "the other side leaves the loop"]
)
@pytest.mark.parametrize(
    "how",
    [{"target": "cpu"}, {"target": "cuda -arch=sm_80", "execution_backend": "emulator"}],
    ids=["cpu", "emulator"],
)
def test_other_executors_run_the_same_program(name: str, how: dict[str, Any]) -> None:
    body, want = RIGHT[name]
    assert outputs(traced(body, name), **how) == want


SOME: dict[str, tuple[str, Any]] = {
    **dict([*RIGHT.items()][:6]),
    **{name: (body, DEPENDS) for name, body in [*WRONG[DEPENDS].items()][:6]},
}


@pytest.mark.parametrize("name", SOME)
def test_eager_kernels_follow_names_as_well(name: str) -> None:
    body, want = SOME[name]
    func = traced(body, name, "@tilelang.jit(target='cpu')")
    out = np.zeros(4, np.int32)
    if isinstance(want, str):
        with pytest.raises(TileNameError, match=want.replace("(", r"\(")):
            func(A, 3, out)
    else:
        func(A, 3, out)
        assert out.tolist() == want


@pytest.mark.parametrize("name", SOME)
def test_macros_follow_names_as_well(name: str) -> None:
    body, want = SOME[name]
    inner = "\n".join("    " + line for line in body.splitlines())
    program = f"@T.macro\ndef work():\n{inner}\nwork()"
    if isinstance(want, str):
        with pytest.raises(TileNameError, match=want):
            traced(program, name)
    else:
        func = traced(program, name)
        assert outputs(func, target="cpu", execution_backend="interpret") == want


def test_names_that_stay_inside_cost_nothing() -> None:
    body = RIGHT["a value used in its own iteration"][0]
    text = traced(body, "inside").script()
    assert "alloc_var" not in text


def test_state_of_a_class_bound_in_a_loop() -> None:
    @T.meta_class
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        def step(self) -> None:
            self.count = self.count + 1

    with pytest.raises(TileNameError, match="the attribute `count` is bound anew"):

        @T.prim_func
        def f(O: T.Tensor((4,), "int32")) -> None:
            with T.Kernel(1, threads=1):
                state = Counter()
                for t in T.serial(4):
                    state.step()
                    O[t] = state.count


MESSAGES = [
    (
        "v = 1\nif n > 2:\n    v = 2\nO[0] = v",
        """\
`v` depends on a condition that is known only at run time
  expected: one value on every path to this statement, or a variable made by T.alloc_var
  got: 2 (line 9) or 1 (before the `if`)
  hint: declare `v = T.alloc_var("int32")` before the `if` and assign to it inside, or write `v = a if condition else b`
 --> <message>:10:16
   10 |         O[0] = v
      |                ^
""",
    ),
    (
        "for t in T.serial(n):\n    if A[t] > 2:\n        v = A[t]\n    else:\n        v = A[0]\n    O[t] = v",
        """\
`v` depends on a condition that is known only at run time
  expected: one value on every path to this statement, or a variable made by T.alloc_var
  got: the value of line 9 or the value of line 11
  hint: declare `v = T.alloc_var("int32")` before the `if` and assign to it inside, or write `v = a if condition else b`
 --> <message>:12:20
   12 |             O[t] = v
      |                    ^
""",
    ),
    (
        "v = 0.5\nfor t in T.serial(n):\n    v = 1\nO[0] = v",
        """\
`v` depends on how often the loop runs
  expected: one value on every path to this statement, or a variable made by T.alloc_var
  got: 1 (line 9) or 0.5 (before the loop)
  hint: declare `v = T.alloc_var(dtype)` before the loop and assign to it inside
 --> <message>:10:16
   10 |         O[0] = v
      |                ^
""",
    ),
    (
        "v = A\nif n > 2:\n    v = O\nO[0] = v[0]",
        """\
`v` depends on a condition that is known only at run time
  expected: one value on every path to this statement, or a variable made by T.alloc_var
  got: the buffer `O` (line 9) or the buffer `A` (before the `if`)
  hint: a name denotes one object; write the statements that use `v` where it is bound
 --> <message>:10:16
   10 |         O[0] = v[0]
      |                ^
""",
    ),
    (
        "v = 0\nfor t in T.Parallel(4):\n    v = v + A[t]",
        """\
the immutable value `v` is updated in a loop
  expected: a variable made by T.alloc_var
  got: `v` bound outside the loop to 0
  hint: iterations have no order; store to a tile, or combine them with T.reduce_... or T.alloc_reducer
 --> <message>:9:13
    9 |             v = v + A[t]
      |             ^^^^^^^^^^^^
""",
    ),
    (
        "v = [0]\nif n > 2:\n    v[0] = 1",
        """\
the item [0] of a list is bound anew in a branch or loop
  expected: a variable made by T.alloc_var, or a binding outside
  got: 0 outside, 1 here
  hint: make it a T.alloc_var: assignments then store into it
 --> <message>:9:13
    9 |             v[0] = 1
      |             ^^^^^^^^
""",
    ),
]


@pytest.mark.parametrize(("body", "text"), MESSAGES)
def test_the_error_says_what_to_write(body: str, text: str) -> None:
    with pytest.raises(TileNameError) as caught:
        traced(body, "message")
    assert f"{caught.value}\n" == as_known(text)
