"""Stuck WhatsApp instances and the notification hub (docs/reconciler.md): an application of its own.

`faust -A streams.reconcile worker` finds it here; it is built on first use, so that the pure modules of this
package can be imported without Kafka's or Faust's client libraries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import faust


def __getattr__(name: str) -> faust.App:
    """Build the reconciler's application when somebody (Faust's command line) asks for `app`."""
    if name == "app":
        from streams.entry import built
        from streams.reconcile.app import build_app

        # importing the module bound its own name here: the application takes its place, once
        app = globals()["app"] = built(build_app)
        return app
    raise AttributeError(name)
