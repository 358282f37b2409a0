"""Host expressions as C and as Python text.

The host part of a GPU program computes with postfix programs over 64-bit slots (see
``tilelang.ir.postfix``). Here they become readable expressions. An undefined value, such as a
division by zero, must stop a call: Python raises; in C the helper functions set ``tl_undefined``,
which the host code checks before it uses a value.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping

from tilelang.errors import TileUnsupportedError
from tilelang.ir.postfix import REAL, Program, fold
from tilelang.records import dataclass

ATOM = 100  # binds tighter than every operator
_PREFIX, _CHOICE = 13, 2
_PARTIAL = frozenset(("floordiv", "floormod", "truncdiv", "truncmod", "shl", "shr"))


@dataclass(frozen=True)
class Text:
    """An expression's text, how tightly its outermost operator binds, and its value if known."""

    text: str
    level: int = ATOM
    value: int | None = None

    def inside(self, level: int) -> str:
        """The text as operand of an operator that binds as tightly as ``level``."""
        return self.text if self.level >= level else f"({self.text})"


class Printer(ABC):
    """Prints programs in one language.

    Args:
        names: each slot's value as an integer expression that needs no brackets.
    """

    # Operation -> (operator, how tightly it binds). A right operand that binds no tighter gets
    # brackets, so that `a - (b - c)` stays what it is.
    infix: Mapping[str, tuple[str, int]]

    def __init__(self, names: Mapping[int, str]) -> None:
        self.names = names

    def knows(self, program: Program) -> bool:
        """Whether all slots of ``program`` have names."""
        slots = [token for token in program if isinstance(token, str) and token[0] == "$"]
        return all(int(token[1:]) in self.names for token in slots)

    def text(self, program: Program) -> str:
        """The expression of ``program``."""
        text = fold(program, self.constant, lambda slot: Text(self.names[slot]), self.operation)
        return text.text

    def operation(self, name: str, operands: list[Text]) -> Text:
        """An operation on operands.

        Raises:
            TileUnsupportedError: of floats.
        """
        if name in REAL:
            raise TileUnsupportedError(
                "the host source of a program that compares floats before its kernels",
                expected="integer arithmetic on sizes, symbols and scalar parameters",
                hint="the kernel itself runs and checks them",
            )
        if len(operands) == 1:
            return self.unary(name, *operands)
        return self.binary(name, *operands) if len(operands) == 2 else self.select(*operands)

    def operator(self, name: str, left: Text, right: Text) -> Text:
        """``left`` and ``right`` around the operator of ``name``."""
        symbol, level = self.infix[name]
        return Text(f"{left.inside(level)} {symbol} {right.inside(level + 1)}", level)

    @abstractmethod
    def constant(self, value: int) -> Text:
        """A number."""

    @abstractmethod
    def unary(self, name: str, operand: Text) -> Text:
        """The operation "neg" or "lnot"."""

    @abstractmethod
    def binary(self, name: str, left: Text, right: Text) -> Text:
        """An operation on two values."""

    @abstractmethod
    def select(self, condition: Text, yes: Text, no: Text) -> Text:
        """A choice that leaves the other side alone."""


class CPrinter(Printer):
    """Programs as C expressions of type ``int64_t`` or ``int``."""

    infix = {
        "mul": ("*", 12), "add": ("+", 11), "sub": ("-", 11), "lt": ("<", 9), "le": ("<=", 9),
        "gt": (">", 9), "ge": (">=", 9), "eq": ("==", 8), "ne": ("!=", 8), "bitand": ("&", 7),
        "bitxor": ("^", 6), "bitor": ("|", 5), "land": ("&&", 4), "lor": ("||", 3),
        "truncdiv": ("/", 12), "truncmod": ("%", 12), "shl": ("<<", 10), "shr": (">>", 10),
    }  # fmt: skip

    def constant(self, value: int) -> Text:
        if value == -(2**63):
            return Text("(-9223372036854775807LL - 1)", ATOM, value)
        suffix = "" if abs(value) < 2**31 else "LL"
        return Text(f"{value}{suffix}", _PREFIX if value < 0 else ATOM, value)

    def unary(self, name: str, operand: Text) -> Text:
        sign = "-" if name == "neg" else "!"
        return Text(sign + operand.inside(_PREFIX + 1), _PREFIX)

    def binary(self, name: str, left: Text, right: Text) -> Text:
        if name in ("min", "max", "floordiv", "floormod"):
            return Text(f"tl_{name}({left.text}, {right.text})")
        if name in ("truncdiv", "truncmod") and right.value in (None, 0, -1):
            return Text(f"tl_{name}({left.text}, {right.text})")
        if name in ("shl", "shr") and not (right.value is not None and 0 <= right.value < 64):
            return Text(f"tl_{name}({left.text}, {right.text})")
        if left.value is not None and right.value is not None:
            # Two literals would be computed as int.
            left = Text(f"(int64_t){left.inside(_PREFIX + 1)}", _PREFIX)
        elif name == "shl" and left.value is not None:
            left = Text(f"(int64_t){left.inside(_PREFIX + 1)}", _PREFIX)
        symbol, level = self.infix[name]
        if level >= 11:
            return self.operator(name, left, right)
        # Compilers warn where readers stumble: brackets inside everything but plain arithmetic.
        inner = {10: 12, 9: 11, 8: 11}.get(level, 8 if name in ("land", "lor") else _PREFIX)
        return Text(f"{left.inside(inner)} {symbol} {right.inside(inner)}", level)

    def select(self, condition: Text, yes: Text, no: Text) -> Text:
        texts = (condition.inside(_CHOICE + 1), yes.inside(_CHOICE + 1), no.inside(_CHOICE + 1))
        return Text("{} ? {} : {}".format(*texts), _CHOICE)


class PythonPrinter(Printer):
    """Programs as Python expressions of type int or bool."""

    # Python chains comparisons, so a comparison inside one needs brackets on both sides: what is
    # next to them binds at least as tightly as `|`.
    infix = {
        "mul": ("*", 12), "floordiv": ("//", 12), "floormod": ("%", 12), "add": ("+", 11),
        "sub": ("-", 11), "shl": ("<<", 10), "shr": (">>", 10), "bitand": ("&", 9),
        "bitxor": ("^", 8), "bitor": ("|", 7), "lt": ("<", 6), "le": ("<=", 6), "gt": (">", 6),
        "ge": (">=", 6), "eq": ("==", 6), "ne": ("!=", 6),
    }  # fmt: skip
    _NOT, _LOGIC = 5, {"land": ("and", 4), "lor": ("or", 3)}

    def constant(self, value: int) -> Text:
        return Text(str(value), _PREFIX if value < 0 else ATOM, value)

    def unary(self, name: str, operand: Text) -> Text:
        if name == "neg":
            return Text("-" + operand.inside(_PREFIX + 1), _PREFIX)
        return Text("not " + operand.inside(self._NOT), self._NOT)

    def binary(self, name: str, left: Text, right: Text) -> Text:
        if name in ("min", "max"):
            return Text(f"{name}({left.text}, {right.text})")
        if name in ("truncdiv", "truncmod"):
            return Text(f"_{name}({left.text}, {right.text})")
        if name in self._LOGIC:
            # `and` and `or` give one of their operands; the program means 0 or 1.
            symbol, level = self._LOGIC[name]
            return Text(f"bool({left.inside(level)} {symbol} {right.inside(level + 1)})")
        symbol, level = self.infix[name]
        if level == 6:
            return Text(f"{left.inside(7)} {symbol} {right.inside(7)}", level)
        return self.operator(name, left, right)

    def select(self, condition: Text, yes: Text, no: Text) -> Text:
        texts = (yes.inside(_CHOICE + 1), condition.inside(_CHOICE + 1), no.inside(_CHOICE + 1))
        return Text("{} if {} else {}".format(*texts), _CHOICE)


def constant_of(program: Program) -> int | None:
    """The value of a program that is one constant."""
    return program[0] if len(program) == 1 and isinstance(program[0], int) else None


# -- what the texts call ---------------------------------------------------------------------------
# In the order of their dependence; each is printed when the text has its name.
C_HELPERS = {
    "tl_undefined": "static thread_local int tl_undefined;  // a value that does not exist",
    "tl_min": "static inline int64_t tl_min(int64_t a, int64_t b) { return a < b ? a : b; }",
    "tl_max": "static inline int64_t tl_max(int64_t a, int64_t b) { return a > b ? a : b; }",
    "tl_truncdiv": """static inline int64_t tl_truncdiv(int64_t a, int64_t b) {
    if (b == 0) tl_undefined = 1;
    return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}""",
    "tl_truncmod": """static inline int64_t tl_truncmod(int64_t a, int64_t b) {
    if (b == 0) tl_undefined = 1;
    return b == 0 || b == -1 ? 0 : a % b;
}""",
    "tl_floordiv": """static inline int64_t tl_floordiv(int64_t a, int64_t b) {
    if (b == 0) tl_undefined = 1;
    if (b == 0 || b == -1) return b ? (int64_t)(0 - (uint64_t)a) : 0;
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}""",
    "tl_floormod": """static inline int64_t tl_floormod(int64_t a, int64_t b) {
    if (b == 0) tl_undefined = 1;
    if (b == 0 || b == -1) return 0;
    const int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}""",
    "tl_shl": """static inline int64_t tl_shl(int64_t a, int64_t b) {
    if (b < 0 || b > 63) tl_undefined = 1;
    return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b);
}""",
    "tl_shr": """static inline int64_t tl_shr(int64_t a, int64_t b) {
    if (b < 0 || b > 63) tl_undefined = 1;
    return b < 0 || b > 63 ? 0 : a >> b;
}""",
}
_NOTE = re.compile(r"^.*tl_undefined = 1;\n", re.MULTILINE)

PYTHON_HELPERS = {
    "_address": """
def _address(tensor):
\treturn 0 if tensor is None else tensor.data_ptr() if hasattr(tensor, "data_ptr") else int(tensor)
""",
    "_truncdiv": """
def _truncdiv(a, b):
\treturn abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
""",
    "_truncmod": """
def _truncmod(a, b):
\treturn a - abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) * b
""",
    "_signed": """
def _signed(value, bits):
\treturn (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
""",
    "_l2_window": """
def _l2_window(wanted, device):
\tmost = wanted
\tfor name in ("MAX_PERSISTING_L2_CACHE_SIZE", "MAX_ACCESS_POLICY_WINDOW_SIZE"):
\t\twhich = getattr(cuda.bindings.driver.CUdevice_attribute, "CU_DEVICE_ATTRIBUTE_" + name)
\t\tres, limit = cuda.bindings.driver.cuDeviceGetAttribute(which, device)
\t\tmost = min(most, limit)
\treturn most
""",
}


def c_helpers(text: str) -> str:
    """The functions that the C ``text`` calls."""
    helpers = {name: body for name, body in C_HELPERS.items() if re.search(rf"\b{name}\b", text)}
    if "tl_undefined" not in helpers:  # all divisions are by numbers
        helpers = {name: _NOTE.sub("", body) for name, body in helpers.items()}
    return "".join(body + "\n" for body in helpers.values())


def python_helpers(text: str) -> str:
    """The functions that the Python ``text`` calls."""
    return "".join(body for name, body in PYTHON_HELPERS.items() if f"{name}(" in text)


def may_be_undefined(program: Program) -> bool:
    """Whether ``program`` may have no value; a division by a number other than 0 always has one."""
    for position, token in enumerate(program):
        if token in _PARTIAL:
            right = constant_of(program[position - 1 : position])
            shift = token in ("shl", "shr")
            if right is None or (not 0 <= right < 64 if shift else right == 0):
                return True
    return False
