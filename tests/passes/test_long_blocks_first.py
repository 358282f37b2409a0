"""Which blocks start first."""

from __future__ import annotations

from executors import SM_90A, holds
from test_overlap_products import arrays, attention, written


def test_blocks_with_more_iterations_come_first() -> None:
    func = attention(causal=True, dynamic=False)
    text = written(func).script()
    assert text.count("the longest blocks start first") == 1
    assert "T.copy(Q[128 - bx * 128:128 - bx * 128 + 128, 0:64], q)" in text
    *given, wanted = arrays(6, True)
    holds(func, (*given, 0 * wanted), wanted, on=(SM_90A,))


def test_other_blocks_keep_their_order() -> None:
    # All take as long, or `n` says how long a block takes.
    for func in (attention(dynamic=False), attention(causal=True)):
        assert "the longest blocks start first" not in written(func).script()
