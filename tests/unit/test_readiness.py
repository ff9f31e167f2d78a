"""One part that goes on doesn't hide that another waits."""

from __future__ import annotations

import status
from streams.readiness import Readiness


def test_ready_is_who_waits_for_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv(status.STATUS_DIR, str(tmp_path))
    readiness = Readiness("worker")

    def told():
        found = status.read(tmp_path, "worker")
        return found.state, found.reason

    database = readiness.of("database")
    database("waits for Postgres")
    readiness.say("transport", "silent for 9 s")
    assert told() == ("waiting", "waits for Postgres; silent for 9 s")
    database(None)
    assert told() == ("waiting", "silent for 9 s")
    readiness.say("transport", None)
    assert told() == ("ready", "")
