"""A position is confirmed only when everything before it is durable, whatever the order of the answers."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.confirmations import Confirmations, Transaction


def committed(confirmations: Confirmations, rows: int, end_lsn: int, commit_ms: int = 0) -> Transaction:
    transaction = confirmations.begin(commit_ms)
    for _ in range(rows):
        confirmations.sent()
    confirmations.commit(end_lsn)
    return transaction


def test_nothing_is_safe_before_the_answer() -> None:
    confirmations = Confirmations()
    transaction = committed(confirmations, 2, 100)
    confirmations.acknowledged(transaction)
    assert confirmations.safe_lsn == 0
    confirmations.acknowledged(transaction)
    assert confirmations.safe_lsn == 100


def test_an_acknowledged_transaction_waits_for_the_older_one() -> None:
    confirmations = Confirmations()
    first, second = committed(confirmations, 1, 100, 7), committed(confirmations, 1, 200, 8)
    confirmations.acknowledged(second)
    assert (confirmations.safe_lsn, confirmations.in_flight, confirmations.oldest_commit_ms) == (0, 2, 7)
    confirmations.acknowledged(first)
    assert (confirmations.safe_lsn, confirmations.in_flight, confirmations.safe_commit_ms) == (200, 0, 8)
    assert confirmations.oldest_commit_ms is None


def test_an_open_transaction_is_not_safe_though_all_its_rows_are_acknowledged() -> None:
    confirmations = Confirmations()
    transaction = confirmations.begin(0)
    confirmations.sent()
    confirmations.acknowledged(transaction)
    confirmations.idle(500)
    assert confirmations.safe_lsn == 0
    confirmations.commit(100)
    assert confirmations.safe_lsn == 100


def test_a_transaction_without_rows_of_ours_is_safe_at_once() -> None:
    confirmations = Confirmations()
    committed(confirmations, 0, 100)
    assert confirmations.safe_lsn == 100


def test_idle_confirms_what_the_server_has_sent_only_with_nothing_in_flight() -> None:
    confirmations = Confirmations()
    confirmations.idle(50)
    assert confirmations.safe_lsn == 50
    transaction = committed(confirmations, 1, 100)
    confirmations.idle(300)
    assert confirmations.safe_lsn == 50
    confirmations.acknowledged(transaction)
    assert confirmations.safe_lsn == 100
    confirmations.idle(300)
    confirmations.idle(200)
    assert confirmations.safe_lsn == 300


def test_a_stream_out_of_step_is_refused() -> None:
    confirmations = Confirmations()
    with pytest.raises(ValueError, match="outside"):
        confirmations.sent()
    with pytest.raises(ValueError, match="never began"):
        confirmations.commit(1)
    transaction = confirmations.begin(0)
    with pytest.raises(ValueError, match="inside"):
        confirmations.begin(0)
    with pytest.raises(ValueError, match="more acknowledgements"):
        confirmations.acknowledged(transaction)


@pytest.mark.thorough
@given(st.lists(st.integers(0, 4), max_size=30), st.randoms(use_true_random=False))
def test_the_safe_position_never_passes_a_record_that_is_not_acknowledged(
    sizes: list[int], rng: random.Random
) -> None:
    confirmations = Confirmations()
    transactions = [committed(confirmations, rows, (at + 1) * 10) for at, rows in enumerate(sizes)]
    outstanding = [at for at, rows in enumerate(sizes) for _ in range(rows)]
    rng.shuffle(outstanding)
    last = 0
    while outstanding:
        oldest = min(outstanding)
        confirmations.idle(10_000)
        assert last <= confirmations.safe_lsn == oldest * 10
        last = confirmations.safe_lsn
        confirmations.acknowledged(transactions[outstanding.pop()])
    confirmations.idle(10_000)
    assert confirmations.safe_lsn == 10_000
