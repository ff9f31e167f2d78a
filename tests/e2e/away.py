"""How long a server is away in the tests of outages, and the settings that shrink with it.

`RAJADA_TEST_AWAY_S` gives the time in seconds: 600 is the ten minutes of a real outage, with every setting as
a product has it. A shorter one shrinks the times of the sweep by the same factor, so that rows still grow
older than what the sweep reaps and lags still grow longer than what holds it.
"""

from __future__ import annotations

import os
from typing import Final

from settings import Settings

TEN_MINUTES_S: Final = 600.0


def away_s(otherwise: float) -> float:
    """Seconds that a server stays away; `otherwise` when the environment doesn't say."""
    return float(os.environ.get("RAJADA_TEST_AWAY_S", otherwise))


def sweep_shrunk_to(seconds: float) -> dict[str, str]:
    """The sweep's settings for an outage of so many seconds that stands for ten minutes."""
    factor, full = min(1.0, seconds / TEN_MINUTES_S), Settings(_env_file=None)
    return {
        "EVENT_REAP_MS": str(round(full.event_reap_ms * factor)),
        "RAJADA_SWEEP_EVERY_S": str(full.sweep_every_s * factor),
        "RAJADA_SWEEP_MAX_LAG_S": str(full.sweep_max_lag_s * factor),
    }
