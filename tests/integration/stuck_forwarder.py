"""A forwarder that stands still inside its n-th transaction with records: `python -m … N MARKER TIMEOUT_S`.

Everything is written and the offsets are sent, but nothing is committed; then MARKER appears.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ops.cli import main
from streams.delays import outlet, process
from streams.delays.outlet import TransactionalOutlet
from streams.delays.records import Place, Send

NTH, MARKER, TIMEOUT_S = int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])


class StuckOutlet(TransactionalOutlet):
    """Ends no transaction from the n-th on."""

    begun = 0

    def forward(self, sends: Sequence[Send], offsets: Mapping[Place, int], now_ms: int, group: Any) -> None:
        self.begun += bool(sends)
        super().forward(sends, offsets, now_ms, group)

    def _until_ended(self, end: Callable[[float], None]) -> None:
        if self.begun >= NTH:
            self._producer.flush(5)
            MARKER.touch()
            time.sleep(3_600)
        super()._until_ended(end)


if __name__ == "__main__":
    outlet.TRANSACTION_S = TIMEOUT_S
    process.TransactionalOutlet = StuckOutlet
    sys.argv[1:] = ["delays"]
    main()
