"""What the demo plays beside the chats: a thread each, which tells what it does and what came of it.

A flow plays its steps at their time, looks at the database until everything has an end, and is told then.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import httpx
import psycopg

from db.pool import conninfo_for
from ops.clinic import Connection
from ops.demo.happenings import Happening, Noted
from ops.errors import Unreachable

LOOK_S: Final = 0.1
_ANSWER_S: Final = 10.0


class Flow(ABC):
    """One flow. `scale`: 1 = the full minute; `tell` hears what it does."""

    def __init__(self, url: str, scale: float, tell: Callable[[Happening], None]) -> None:
        self._url = url
        self._scale = scale
        self._tell = tell
        self.ended = False
        """Everything that it played has an end."""

    def run(self, begun: float, stop: threading.Event) -> None:
        """Play until everything has an end, or `stop`; `begun` is second 0 on the monotonic clock.

        Raises psycopg.Error, or Unreachable when somebody it speaks to is away.
        """
        with psycopg.connect(conninfo_for(self._url, "demo-beside"), autocommit=True) as connection:
            for at_s, step in self.steps(connection):
                if stop.wait(max(0.0, begun + at_s * self._scale - time.monotonic())):
                    return
                step()
            while not self.look(connection) and not stop.wait(LOOK_S):
                pass
            self.ended = not stop.is_set()

    @abstractmethod
    def steps(self, connection: Connection) -> Iterator[tuple[float, Callable[[], None]]]:
        """What is done, each at its second of the full minute."""

    @abstractmethod
    def look(self, connection: Connection) -> bool:
        """Look what became of it; returns whether all of it has an end."""

    def say(self, what: str) -> None:
        """Tell whoever watches."""
        self._tell(Noted(time.monotonic(), None, what))


@contextmanager
def asked(who: str, url: str, headers: dict[str, str] | None = None) -> Iterator[httpx.Client]:
    """A client of a service of the demo's stack; an error of the way there names it. Raises Unreachable."""
    try:
        with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=_ANSWER_S) as client:
            yield client
    except httpx.HTTPStatusError as error:  # its own words go over two lines and lead to another site
        code = error.response.status_code
        raise Unreachable(
            f"The demo's {who} at {url} answers {code} for {error.request.url.path}. Look at its log in the "
            "demo's logs."
        ) from error
    except httpx.HTTPError as error:
        raise Unreachable(
            f"The demo's {who} at {url} does not answer ({error}). Look at its log in the demo's logs."
        ) from error
