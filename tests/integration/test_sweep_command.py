"""`rajada sweep` as people type it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta

from tests.command_line import run_rajada
from tests.integration.test_sweep import ORGANIZATION, Place, place

__all__ = ["place"]  # the fixture


def run(
    place: Place, *arguments: str, answer: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    return run_rajada("sweep", *arguments, env=surroundings(place, **environment), given=answer.encode())


def surroundings(place: Place, **environment: str) -> dict[str, str]:
    return {
        **os.environ,
        "DATABASE_URL": place.url,
        "KAFKA_BOOTSTRAP_SERVERS": place.bootstrap,
        "RAJADA_TOPIC_PREFIX": place.settings.topic_prefix,
        "COLUMNS": "200",
        **environment,
    }


def test_it_shows_what_is_stuck_and_publishes_it(place: Place) -> None:
    place.event()
    place.event()
    place.event(age=timedelta(days=2))
    dry = run(place, "--dry-run")
    assert (dry.returncode, place.published()) == (0, [])
    assert "2 events are stuck since the installation" in dry.stdout and ORGANIZATION in dry.stdout
    done = run(place)
    assert done.returncode == 0, done.stderr
    assert "Published 2 events again." in done.stdout
    assert "Nothing is stuck" in run(place).stdout
    assert json.loads(run(place, "--json").stdout) == {
        "waiting": [],
        "published": 0,
        "held": None,
        "busy": False,
    }
    told = json.loads(run(place, "--now", "--json").stdout)
    assert (told["published"], told["waiting"][0]["tried_before"]) == (2, 2)


def test_a_backfill_asks_first_and_says_how_many_of_whom_and_how_old(place: Place) -> None:
    for days in (0, 2, 2, 20, 40):
        place.event(age=timedelta(days=days, minutes=10))
    asked = run(place, "--backfill", "30d", answer="n\n")
    assert asked.returncode == 1 and place.published() == []
    assert "4 events are stuck since" in asked.stdout and "Publish 4 events again?" in asked.stdout
    told = json.loads(run(place, "--backfill", "30d", "--dry-run", "--json").stdout)
    (waiting,) = told["waiting"]
    assert (waiting["events"], waiting["age"]) == (4, {"1h": 1, "1d": 0, "7d": 2, "older": 1})
    done = run(place, "--backfill", "30d", answer="y\n")
    assert (done.returncode, len(place.published())) == (0, 4)
    assert "Published 4 events again." in done.stdout


def test_a_backfill_keeps_to_its_rate_and_goes_on_where_ctrl_c_ended_it(place: Place) -> None:
    events = {place.event(age=timedelta(days=1)) for _ in range(40)}
    command = [sys.executable, "-m", "ops.cli", "sweep", "--backfill", "2d", "--yes", "--rate", "8"]
    process = subprocess.Popen(command, env=surroundings(place), stdout=subprocess.PIPE, text=True)
    while len(place.swept()) < 8:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=20)
    first = place.published_ids()
    assert process.returncode == 130 and "the same command goes on" in told
    assert f"Published {len(first)} events again." in told and 8 <= len(first) < 40
    assert run(place, "--backfill", "2d", "--yes", "--rate", "1000").returncode == 0
    assert sorted(place.published_ids()) == sorted(events)


def test_it_says_who_is_behind_and_a_backfill_waits_for_them(place: Place) -> None:
    place.event()
    place.produce(place.source, age_s=100)
    held = run(place)
    assert held.returncode == 3
    assert "Nothing is published now: the worker is more than 60 s behind" in held.stderr
    assert "Nothing would be published now: the worker is" in run(place, "--dry-run").stdout
    command = [sys.executable, "-m", "ops.cli", "sweep", "--backfill", "1d", "--yes", "--json"]
    process = subprocess.Popen(command, env=surroundings(place), stdout=subprocess.PIPE, text=True)
    time.sleep(4)
    assert process.poll() is None and place.swept() == {}
    place.commit(offset=1)
    told, _ = process.communicate(timeout=30)
    assert (process.returncode, json.loads(told)["published"]) == (0, 1)


def test_wrong_usage_and_servers_that_are_away_are_told(place: Place) -> None:
    assert run(place, "--backfill", "soon").returncode == 2
    assert run(place, "--backfill", "2d", "--json").returncode == 2
    away = run(place, DATABASE_URL="postgresql://postgres@127.0.0.1:1/none")
    assert away.returncode == 7 and "Postgres does not answer" in away.stderr
    bare = run(place, DATABASE_URL=place.url.rsplit("/", 1)[0] + "/postgres")
    assert bare.returncode == 3 and "rajada migrate" in bare.stderr
