"""What flows through Kafka: events into windows, windows into decisions, decisions into jobs.

`faust -A streams worker` finds the application here; it is built on first use, so that the pure modules
of this package can be imported without Kafka's or Faust's client libraries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import faust


def __getattr__(name: str) -> faust.App:
    """Build the Faust application when somebody asks for `streams.app`."""
    if name == "app":
        from importlib import import_module

        app: faust.App = import_module("streams.app").app
        return app
    raise AttributeError(name)
