"""Methods whose results an object keeps."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilelang.ir.memo import memoized


@dataclass(frozen=True)
class Squares:
    asked: list[int] = field(default_factory=list)

    @memoized
    def of(self, n: int) -> int | None:
        self.asked.append(n)
        return n * n if n else None


class Doubled(Squares):
    @memoized
    def of(self, n: int) -> int | None:
        return 2 * (super().of(n) or 0)


def test_a_result_is_computed_once_for_an_object_and_arguments() -> None:
    squares, others = Squares(), Squares()
    assert [squares.of(n) for n in (3, 0, 3, 0)] == [9, None, 9, None]
    assert others.of(3) == 9
    assert (squares.asked, others.asked) == ([3, 0], [3])


def test_a_method_keeps_other_results_than_the_one_it_overrides() -> None:
    doubled = Doubled()
    assert [doubled.of(3), doubled.of(3)] == [18, 18]
    assert doubled.asked == [3]
