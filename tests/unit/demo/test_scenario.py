"""The minute that is played: the same each time, and with everything in it."""

from __future__ import annotations

import json
from typing import TypeVar

import pytest

from ops.demo.scenario import FULL_S, Scenario, scenario
from ops.demo.steps import BreakOff, Merge, Noise, OutOfContract, Read, Repeat, Say, TakeOver

S = TypeVar("S")


def of_kind(played: Scenario, kind: type[S]) -> list[S]:
    return [step for step in played.steps if isinstance(step, kind)]


def test_the_same_length_gives_the_same_minute() -> None:
    assert scenario(20) == scenario(20)
    assert scenario() == scenario(FULL_S)


def test_everything_happens_in_the_order_of_time_and_within_the_minute() -> None:
    for seconds in (10.0, 20.0, 60.0, 90.0):
        played = scenario(seconds)
        times = [step.at_s for step in played.steps]
        assert times == sorted(times)
        longest_s = max(line.window_ms for line in played.lines) / 1000
        assert times[-1] + longest_s <= played.seconds == seconds


def test_a_shorter_minute_has_the_same_messages_and_shorter_windows() -> None:
    full, short = scenario(), scenario(20)
    assert short.messages == full.messages > 50
    assert short.lines[0].window_ms == full.lines[0].window_ms // 3
    assert scenario(1).seconds == 10, "shorter than that nobody can follow"
    assert all(line.window_ms >= 300 for line in scenario(10).lines)


def test_bursts_come_of_several_people_at_once() -> None:
    said = of_kind(scenario(), Say)
    assert len({step.chat.key for step in said}) >= 12
    longest = max(
        sum(other.chat is step.chat and 0 <= other.at_s - step.at_s <= 4 for other in said) for step in said
    )
    assert longest >= 8


@pytest.mark.parametrize("kind", ["image", "audio"])
def test_photos_and_audios_are_read_later_than_their_windows_end(kind: str) -> None:
    played = scenario()
    media = {step.label: step for step in of_kind(played, Say) if step.kind == kind}
    reads = [step for step in of_kind(played, Read) if step.of in media]
    assert len(reads) == len(media) >= 1
    longest = max(step.at_s - media[step.of].at_s for step in reads)
    assert longest > played.line_of(reads[0].chat).window_ms / 1000
    if kind == "image":
        assert longest == pytest.approx(12.0)


def test_every_trouble_is_in_it() -> None:
    played = scenario()
    said = {step.chat.key: step.chat for step in of_kind(played, Say)}
    assert any(chat.group for chat in said.values())
    assert any(chat.owner == "user" for chat in said.values())
    used = {played.line_of(chat).key: played.line_of(chat) for chat in said.values()}
    assert any(line.agent == "paused" for line in used.values())
    assert any(line.organization == "suspended" for line in used.values())
    assert any(chat.same_contact_as in said and chat.line != "reception" for chat in said.values())
    for kind in (OutOfContract, BreakOff, TakeOver, Merge, Repeat, Noise):
        assert of_kind(played, kind), kind
    with pytest.raises(json.JSONDecodeError):
        json.loads(of_kind(played, Noise)[0].data)


def test_what_a_step_refers_to_was_said_before() -> None:
    played = scenario()
    said_at = {step.label: step.at_s for step in of_kind(played, Say)}
    for step in (*of_kind(played, Read), *of_kind(played, Repeat)):
        assert said_at[step.of] < step.at_s
    for step in of_kind(played, BreakOff):
        assert said_at[step.after] <= step.at_s


def test_a_record_is_repeated_within_its_window_and_after_it() -> None:
    played = scenario()
    said = {step.label: step for step in of_kind(played, Say)}
    waits = [
        step.at_s - said[step.of].at_s - played.line_of(step.chat).window_ms / 1000
        for step in of_kind(played, Repeat)
    ]
    assert min(waits) < 0 < max(waits)
