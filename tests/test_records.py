"""Dataclasses whose methods are made late behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import field
from functools import cached_property
from typing import Any, ClassVar

import pytest

from tilelang import records


def _classes(dataclass: Any) -> dict[str, type]:
    @dataclass(frozen=True)
    class Plain:
        """A class."""

        a: int
        b: tuple[int, ...] = (1, 2)
        c: list[int] = field(default_factory=list)
        shared: ClassVar[int] = 3

        @cached_property
        def total(self) -> int:
            return self.a + sum(self.b)

    @dataclass(frozen=True)
    class Derived(Plain):
        """One more field, and another default."""

        b: tuple[int, ...] = ()
        d: str = field(default="x", compare=False, repr=False)

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError("negative")

    @dataclass(frozen=True, eq=False, kw_only=True, repr=False)
    class Node:
        """Compared by identity."""

        first: int
        memo: dict[str, int] = field(default_factory=dict, init=False)
        fixed: int = field(default=7, init=False)

        def __repr__(self) -> str:
            return f"<{self.first}>"

    @dataclass(frozen=True)
    class One:
        """A tuple of one."""

        value: object

    @dataclass(frozen=True)
    class Own:
        """With equality of its own."""

        value: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and self.value % 2 == other.value % 2

        def __hash__(self) -> int:
            return self.value % 2

    @dataclass
    class Changing:
        """Not frozen."""

        a: int
        b: list[int] = field(default_factory=list)

    classes = (Plain, Derived, Node, One, Own, Changing)
    return {cls.__name__: cls for cls in classes}


OURS, THEIRS = _classes(records.dataclass), _classes(dataclasses.dataclass)


@records.dataclass(frozen=True)
class Kept:
    """Of a module, so that it can be pickled."""

    a: int
    b: str = "b"


@pytest.mark.parametrize("name", OURS)
def test_signatures_fields_and_matching_are_the_same(name: str) -> None:
    ours, theirs = OURS[name], THEIRS[name]
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    assert ours.__match_args__ == theirs.__match_args__  # type: ignore[attr-defined]  # of both
    assert [f.name for f in dataclasses.fields(ours)] == [
        f.name for f in dataclasses.fields(theirs)
    ]
    assert (ours.__hash__ is object.__hash__) == (theirs.__hash__ is object.__hash__)
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("Plain", (1,), {}), ("Plain", (1, (3,)), {"c": [4]}), ("Derived", (1,), {"d": "y"}),
        ("Node", (), {"first": 5}), ("One", (1.5,), {}), ("Own", (4,), {}),
        ("Changing", (1,), {"b": [2]}),
    ],
)  # fmt: skip
def test_instances_are_the_same(name: str, args: Any, kwargs: Any) -> None:
    ours, theirs = OURS[name](*args, **kwargs), THEIRS[name](*args, **kwargs)
    assert repr(ours).replace("<locals>.", "") == repr(theirs).replace("<locals>.", "")
    assert vars(ours) == vars(theirs)
    assert (ours == OURS[name](*args, **kwargs)) == (theirs == THEIRS[name](*args, **kwargs))
    assert ours != theirs


def test_an_identical_field_compares_equal() -> None:
    cls, value = OURS["One"], float("nan")
    assert cls(value) == cls(value) and cls(value) != cls(float("nan"))


def test_hashes_are_those_of_the_compared_fields() -> None:
    cls = OURS["Derived"]
    one, other = cls(1, (2,), (), d="x"), cls(1, (2,), (), d="y")
    assert one == other and hash(one) == hash(other) == hash((1, (2,), ()))
    assert one != cls(2, (2,), ()) and one != OURS["Plain"](1, (2,), ())


@pytest.mark.parametrize("kind", [OURS, THEIRS])
def test_wrong_arguments_are_python_s_errors(kind: dict[str, type]) -> None:
    with pytest.raises(TypeError, match=r"Plain.__init__\(\) missing 1 required positional"):
        kind["Plain"]()
    with pytest.raises(TypeError, match="unexpected keyword argument 'memo'"):
        kind["Node"](first=1, memo={})
    with pytest.raises(ValueError, match="negative"):
        kind["Derived"](-1)


@pytest.mark.parametrize("kind", [OURS, THEIRS])
def test_nothing_can_be_assigned_or_deleted(kind: dict[str, type]) -> None:
    item: Any = kind["Plain"](1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'a'"):
        item.a = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'new'"):
        item.new = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'a'"):
        del item.a
    assert item.total == 4  # is kept next to the fields

    class Undecorated(kind["Plain"]):  # type: ignore[misc]  # a base that is a value
        pass

    derived: Any = Undecorated(1)
    derived.more = 5
    assert derived.more == 5
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'a'"):
        derived.a = 2


@pytest.mark.parametrize("kind", [OURS, THEIRS])
def test_what_is_not_frozen_can_be_assigned_and_has_no_hash(kind: dict[str, type]) -> None:
    item: Any = kind["Changing"](1)
    item.a = 2
    assert item == kind["Changing"](2) != kind["Changing"](1)
    with pytest.raises(TypeError, match="unhashable type"):
        hash(item)


def test_copies_changes_and_pickles_are_equal() -> None:
    item = Kept(1)
    assert dataclasses.replace(item, b="c") == Kept(1, "c")
    assert copy.copy(item) == pickle.loads(pickle.dumps(item)) == item
    assert dataclasses.asdict(item) == {"a": 1, "b": "b"}
    assert dataclasses.is_dataclass(item)


def test_the_text_of_init_is_compiled_when_it_is_first_called() -> None:
    @records.dataclass(frozen=True)
    class Fresh:
        """No instance exists."""

        a: int

    assert not inspect.isfunction(vars(Fresh)["__init__"])
    assert Fresh(3) == Fresh(a=3)
    assert inspect.isfunction(vars(Fresh)["__init__"])
    assert Fresh.__init__.__qualname__.endswith("Fresh.__init__")
