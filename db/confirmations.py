"""Which position of the WAL may be confirmed: only what Kafka has acknowledged, in order. Pure.

A confirmed position is never sent again, so it must lie before the first record that is not durable
(design, decision 1). Acknowledgements come in any order, from several partitions.
"""

from __future__ import annotations

from collections import deque


class Transaction:
    """A transaction on its way: how many of its records Kafka has not acknowledged, and where it ends."""

    __slots__ = ("commit_ms", "end_lsn", "unacknowledged")

    def __init__(self, commit_ms: int) -> None:
        self.commit_ms = commit_ms
        self.unacknowledged = 0
        self.end_lsn: int | None = None  # not known before its Commit message


class Confirmations:
    """The transactions in flight, oldest first, and the highest position that is safe to confirm."""

    def __init__(self) -> None:
        self._in_flight: deque[Transaction] = deque()
        self._open: Transaction | None = None
        self._safe_lsn = 0
        self._safe_commit_ms: int | None = None

    def begin(self, commit_ms: int) -> Transaction:
        """A transaction starts; `commit_ms` is its commit time."""
        if self._open is not None:
            raise ValueError("a transaction began inside another one")
        self._open = Transaction(commit_ms)
        self._in_flight.append(self._open)
        return self._open

    def sent(self) -> Transaction:
        """A record of the open transaction was handed to Kafka; give its transaction to `acknowledged`."""
        if self._open is None:
            raise ValueError("a row came outside a transaction")
        self._open.unacknowledged += 1
        return self._open

    def acknowledged(self, transaction: Transaction) -> None:
        """Kafka has one more record of that transaction for good."""
        if transaction.unacknowledged <= 0:
            raise ValueError("more acknowledgements than records")
        transaction.unacknowledged -= 1

    def commit(self, end_lsn: int) -> None:
        """The open transaction ends; all of it has been received."""
        if self._open is None:
            raise ValueError("a transaction ended that never began")
        self._open.end_lsn = end_lsn
        self._open = None

    def idle(self, wal_end: int) -> None:
        """The server has sent everything up to `wal_end`: with nothing in flight that is confirmed too.

        Without this an idle slot pins the WAL that other tables write.
        """
        if not self.in_flight and wal_end > self._safe_lsn:
            self._safe_lsn = wal_end

    @property
    def in_flight(self) -> int:
        """How many transactions are open or not acknowledged whole."""
        self._advance()
        return len(self._in_flight)

    @property
    def safe_lsn(self) -> int:
        """The highest position that may be confirmed; 0 = none yet."""
        self._advance()
        return self._safe_lsn

    @property
    def safe_commit_ms(self) -> int | None:
        """The commit time of the last transaction that is acknowledged whole, with all before it."""
        self._advance()
        return self._safe_commit_ms

    @property
    def oldest_commit_ms(self) -> int | None:
        """The commit time of the oldest transaction in flight."""
        self._advance()
        return self._in_flight[0].commit_ms if self._in_flight else None

    def _advance(self) -> None:
        while self._in_flight:
            oldest = self._in_flight[0]
            if oldest.end_lsn is None or oldest.unacknowledged:
                return
            self._in_flight.popleft()
            self._safe_lsn = max(self._safe_lsn, oldest.end_lsn)
            self._safe_commit_ms = oldest.commit_ms
