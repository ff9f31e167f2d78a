"""Whether the worker is ready: several parts have a say, and it is ready when none of them waits."""

from __future__ import annotations

from collections.abc import Callable

import status


class Readiness:
    """The reasons why a process waits, one for each part that gave one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._reasons: dict[str, str] = {}

    def say(self, part: str, reason: str | None) -> None:
        """What `part` waits for; None: for nothing (more). Reported at once (`status.report`)."""
        if reason:
            self._reasons[part] = reason
        else:
            self._reasons.pop(part, None)
        status.report(self._name, "waiting" if self._reasons else "ready", "; ".join(self._reasons.values()))

    def reasons(self) -> dict[str, str]:
        """Why it waits, by part; from any thread."""
        return self._reasons.copy()

    def of(self, part: str) -> Callable[[str | None], None]:
        """`say` for one part."""
        return lambda reason: self.say(part, reason)
