"""The figures of lateness that `rajada status` shows."""

from __future__ import annotations

from streams.delays.lateness import SPAN_S, Figures, Lateness


def test_nothing_came_due() -> None:
    assert Lateness().figures(0.0) == Figures(0, 0, 0, 0)


def test_median_tail_and_worst_of_the_last_minute() -> None:
    late = Lateness()
    late.add(9_000, 0.0)
    for ms in range(101):
        late.add(float(ms), 1.0)
    assert late.figures(1.0) == Figures(102, 50, 99 + 1, 9_000)
    assert late.figures(SPAN_S + 0.5) == Figures(101, 50, 99, 100)
    assert late.figures(SPAN_S + 1.5) == Figures(0, 0, 0, 0)
