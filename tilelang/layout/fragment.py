"""Fragment layouts (``T.Fragment``): the thread and register that hold each element of a tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from tilelang.errors import TileTypeError, TileUnsupportedError, TileValueError, shown
from tilelang.ir.expr import Expr, Var, as_expr, const
from tilelang.ir.indices import row_major
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import substitute
from tilelang.layout.evaluate import Array, distinct, evaluate, ranks
from tilelang.layout.layout import INDEX, Layout, as_outputs, constant_extents, index_vars
from tilelang.tracebacks import border

if TYPE_CHECKING:
    from tilelang.layout.svg import Drawing


class Fragment(Layout):
    """A layout over threads: element ``i`` is in register ``index(i)`` of ``thread(i, rep)``.

    Args:
        shape: extents, constants.
        forward_fn: function of the indices (and the replica number if ``replicate`` > 1) that
            gives (thread, register).
        forward_thread_fn: the thread alone, instead of ``forward_fn``.
        replicate: in how many threads each element is held.
        forward_index_fn: the register of the indices, with ``forward_thread_fn``; by default
            the elements of a thread are numbered in row-major order.

    ``forward_index`` is None where the register is known as a table only.

    Raises:
        TileTypeError: a map that is missing or not a function, or a ``replicate`` that is not a
        number.
        TileValueError: a register that depends on the replica.
    """

    op_name = "T.Fragment"

    @border
    def __init__(
        self, shape: object, forward_fn: Callable[..., Any] | None = None,
        forward_thread_fn: Callable[..., Any] | None = None, replicate: int = 1,
        forward_index_fn: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        self.shape = constant_extents(shape, self.op_name)
        sizes = constant_extents(replicate, "the replication of T.Fragment")
        if len(sizes) != 1:
            raise TileTypeError(
                "the replication of T.Fragment is not a number",
                expected="in how many threads each element is held",
                got=shown(replicate),
            )
        self.replicate_size = sizes[0]
        self.forward_vars = index_vars(len(self.shape))
        self.rep_var = Var("rep", INDEX)
        self._table: Array | None = None
        self._threads: Array | None = None
        args = self.forward_vars + ((self.rep_var,) if self.replicate_size > 1 else ())
        for named in (forward_fn, forward_thread_fn, forward_index_fn):
            if named is not None and not callable(named):
                raise TileTypeError(
                    f"a map of {self.op_name} is not a function",
                    expected=f"a function of {len(args)} indices",
                    got=shown(named),
                    hint="give a lambda of the indices; forward_fn gives (thread, register)",
                )
        if forward_fn is not None:
            outputs = forward_fn(*args)
            if not isinstance(outputs, (tuple, list)) or len(outputs) != 2:
                raise TileTypeError(
                    "the map of T.Fragment does not return (thread, register)",
                    expected="a pair (thread, register)",
                    got=shown(outputs),
                )
            self.forward_thread = as_expr(outputs[0])
            self.forward_index = as_outputs(outputs[1])
        elif forward_thread_fn is not None:
            self.forward_thread = as_expr(forward_thread_fn(*args))
            if forward_index_fn is not None:
                self.forward_index = as_outputs(forward_index_fn(*self.forward_vars))
            else:
                self._number_registers()
        else:
            raise TileTypeError(
                "T.Fragment without a map",
                expected="forward_fn, or forward_thread_fn with or without forward_index_fn",
            )
        if any(self.rep_var in expr.variables for expr in self.forward_index):
            raise TileValueError(
                "the register of T.Fragment depends on the replica",
                expected="a register that depends on the indices only",
                got=repr(self.forward_index),
            )

    # -- tables -----------------------------------------------------------------------------
    def thread_table(self) -> Array:
        """Return the threads that hold each element, of shape (*shape, replicas).

        Raises:
            TileValueError: the fragment maps an element to a negative thread.
        """
        if self._threads is None:
            values = {var: axis[..., None] for var, axis in self.grids().items()}
            values[self.rep_var] = np.arange(self.replicate_size, dtype=np.int64)
            full = (*self.shape, self.replicate_size)
            table = np.broadcast_to(evaluate(self.forward_thread, values), full)
            if table.size and int(table.min()) < 0:
                raise TileValueError(
                    "T.Fragment maps an element to a negative thread",
                    expected="threads from 0",
                    got=str(int(table.min())),
                )
            self._threads = table
        return self._threads

    def _number_registers(self) -> None:
        """Elements of each thread numbered in row-major order, as an expression if it has one."""
        table = ranks(self.thread_table()[..., 0].reshape(-1)).reshape(*self.shape, 1)
        free = [var not in self.forward_thread.variables for var in self.forward_vars]
        guess = row_major([*compress(self.shape, free)], [*compress(self.forward_vars, free)])
        values = np.broadcast_to(evaluate(guess, self.grids()), self.shape)
        if not np.array_equal(values, table[..., 0]):
            self._table = table
            self.forward_index = ()
            return
        self.forward_index = (guess,)

    def table(self) -> Array:
        """Return the register of each element, of shape (*shape, outputs)."""
        return super().table()

    def get_thread_size(self) -> int:
        """Return the number of threads: the highest that holds an element, plus one."""
        return int(self.thread_table().max()) + 1

    def is_injective(self) -> bool:
        """Return whether no register of a thread holds two elements."""
        registers = np.broadcast_to(self.addresses()[..., None], self.thread_table().shape)
        keys = (self.thread_table() * self.size + registers).reshape(-1)
        order = np.argsort(keys, kind="stable")
        elements = order // self.replicate_size
        shared = keys[order][1:] == keys[order][:-1]
        return not bool((shared & (elements[1:] != elements[:-1])).any())

    def is_bijective(self) -> bool:
        """Return whether every register of every thread holds exactly one element."""
        filled = self.get_thread_size() * self.size
        registers = distinct(self.thread_table() * self.size + self.addresses()[..., None])
        return self.is_injective() and registers.size == filled

    def inverse(self) -> Array:
        """Return the index in each register, of shape (threads, registers, dims); -1 for none.

        Raises:
            TileValueError: a register holds two elements.
        """
        if not self.is_injective():
            raise TileValueError(
                "T.Fragment has no inverse",
                expected="one element per register",
                got="two elements in one register of a thread",
            )
        result = np.full((self.get_thread_size(), self.size, len(self.shape)), -1, np.int64)
        logical = np.stack([axis.reshape(-1) for axis in np.indices(self.shape)], axis=-1)
        registers = self.addresses().reshape(-1)
        for rep in range(self.replicate_size):
            result[self.thread_table()[..., rep].reshape(-1), registers] = logical
        return result

    def contains(self, other: Fragment) -> bool:
        """Return whether each thread that holds an element in ``other`` holds it here too."""
        if self.shape != other.shape:
            return False
        own, theirs = self.thread_table(), other.thread_table()
        return bool((own[..., :, None] == theirs[..., None, :]).any(axis=-2).all())

    # -- maps -------------------------------------------------------------------------------
    def thread_of(self, indices: Sequence[object], rep: object = 0) -> Expr:
        """Return the thread that holds replica ``rep`` of an element."""
        values = {**self.bound(indices), self.rep_var: as_expr(rep)}
        return simplify(substitute(self.forward_thread, values))

    def map_forward_thread(self, indices: Sequence[object], rep: object = None) -> Expr:
        """Return :meth:`thread_of`; without ``rep`` the replica is the variable :attr:`rep_var`."""
        if rep is None:
            rep = self.rep_var if self.replicate_size > 1 else 0
        return self.thread_of(indices, rep)

    def map_forward_index(self, indices: Sequence[object]) -> tuple[Expr, ...]:
        """Return the register of an element given by expressions.

        Raises:
            TileUnsupportedError: the register is known as a table only.
        """
        if not self.forward_index:
            values = [as_expr(index) for index in indices]
            raise TileUnsupportedError(
                "the register of this T.Fragment is known as a table only",
                expected="a fragment with forward_fn or forward_index_fn",
                got=f"{values!r}",
            )
        return super().map_forward_index(indices)

    # -- new fragments ------------------------------------------------------------------------
    def _derived(
        self, *, shape: Sequence[int] | None = None, replicate: int | None = None,
        inner: Callable[[Sequence[Expr]], Sequence[object]] = lambda indices: indices,
        thread: Callable[[Expr, Sequence[Expr]], object] = lambda inner, args: inner,
        register: Callable[[tuple[Expr, ...], Sequence[Expr]], object] = lambda inner, args: inner,
        rep: Callable[[Expr], object] = lambda number: number,
    ) -> Fragment:  # fmt: skip
        """A fragment that differs from this one in what is given."""
        count = self.replicate_size if replicate is None else replicate
        repeated = count > 1

        def forward(*args: Expr) -> tuple[object, object]:
            indices = args[:-1] if repeated else args
            number = args[-1] if repeated else const(0)
            logical = inner(indices)
            owner = thread(self.thread_of(logical, rep(number)), args)
            return owner, register(self.map_forward_index(logical), indices)

        return Fragment(self.shape if shape is None else shape, forward, replicate=count)

    def repeat(
        self, repeats: Sequence[int], repeat_on_thread: bool = False, lower_dim_first: bool = True
    ) -> Fragment:
        """Return copies of the fragment side by side.

        Args:
            repeats: copies along each dimension.
            repeat_on_thread: whether the copies are in further threads, or in further registers.
            lower_dim_first: whether copies are numbered along the last dimension first.

        Raises:
            TileValueError: ``repeats`` has not one number for each dimension.
        """
        counts = constant_extents(list(repeats), "the repeats of T.Fragment")
        if len(counts) != len(self.shape):
            raise TileValueError(
                "the repeats of T.Fragment do not fit its shape",
                expected=f"{len(self.shape)} numbers",
                got=str(list(repeats)),
            )
        old, threads, registers = self.shape, self.get_thread_size(), self.size
        order = range(len(old))

        def number(indices: Sequence[Expr]) -> Expr:
            total: Expr = const(0)
            for dim in order if lower_dim_first else reversed(order):
                total = as_expr(total * counts[dim] + indices[dim] // old[dim])
            return total

        def thread(inner: Expr, args: Sequence[Expr]) -> object:
            return inner + number(args[: len(old)]) * threads if repeat_on_thread else inner

        def register(inner: tuple[Expr, ...], indices: Sequence[Expr]) -> object:
            if repeat_on_thread:
                return inner
            return row_major(self.output_shape(), inner) + number(indices) * registers

        return self._derived(
            shape=[extent * count for extent, count in zip(old, counts, strict=True)],
            inner=lambda indices: [i % extent for i, extent in zip(indices, old, strict=True)],
            thread=thread, register=register,
        )  # fmt: skip

    def replicate(self, replicate: int) -> Fragment:
        """Return the fragment held ``replicate`` times, by further threads."""
        (count,) = constant_extents(replicate, "the replication of T.Fragment")
        old, threads = self.replicate_size, self.get_thread_size()
        if count == 1:
            return self
        return self._derived(
            replicate=old * count, rep=lambda rep: rep % old,
            thread=lambda inner, args: inner + args[-1] // old * threads,
        )  # fmt: skip

    def condense_rep_var(self) -> Fragment:
        """Return the fragment without replicas that repeat a thread."""
        table, total = self.thread_table(), self.replicate_size
        numbers = np.arange(total)
        for count in (d for d in range(1, total) if total % d == 0):
            step = total // count
            for source, stride in ((numbers % count, 1), (numbers // step * step, step)):
                if np.array_equal(table, table[..., source]):
                    return self._derived(
                        replicate=count,
                        rep=lambda rep, scale=stride: rep * scale,  # type: ignore[misc]  # bound now
                    )
        return self

    # -- values -------------------------------------------------------------------------------
    @property
    def thread(self) -> Expr:
        """The thread of the placeholders."""
        return self.forward_thread

    def drawing(self, dtype: object) -> Drawing:
        from tilelang.layout.drawing import fragment_grid

        return fragment_grid(
            self.shape, self.thread_table(), self.addresses(), self.replicate_size,
            self.get_thread_size(), self.size,
        )  # fmt: skip

    def _key(self) -> tuple[Any, ...]:
        return (*super()._key(), self.replicate_size, self.thread_table().tobytes())

    def _is_same(self, other: Any) -> bool:
        return (
            super()._is_same(other)
            and self.replicate_size == other.replicate_size
            and np.array_equal(self.thread_table(), other.thread_table())
        )

    def __repr__(self) -> str:
        names = ", ".join(var.name for var in self.forward_vars)
        images = ", ".join(repr(expr) for expr in self.forward_index) or "by table"
        return (
            f"Fragment({self.shape} -> {self.get_thread_size()} threads x {self.output_shape()}, "
            f"replicate {self.replicate_size}, ({names}) -> thread {self.forward_thread!r}, "
            f"register ({images}))"
        )
