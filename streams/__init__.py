"""What flows through Kafka: events into windows, windows into decisions, decisions into jobs.

`faust -A streams worker` finds the application here; it is built on first use, so that the pure modules
of this package can be imported without Kafka's or Faust's client libraries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import faust


def __getattr__(name: str) -> faust.App:
    """Build the worker's application when somebody (Faust's command line) asks for `streams.app`."""
    if name == "app":
        from streams.app import build_app
        from streams.entry import built

        # importing the module bound its own name here: the application takes its place, once
        app = globals()["app"] = built(build_app)
        return app
    raise AttributeError(name)
