"""The minute that is played: the same each time, and with everything in it."""

from __future__ import annotations

import json
from typing import TypeVar

import pytest

from ops.demo.scenario import FULL_S, Scenario, scenario
from ops.demo.steps import (
    BreakOff,
    Connect,
    Merge,
    Noise,
    Order,
    OutOfContract,
    Read,
    Repeat,
    Say,
    TakeOver,
    Treat,
)

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


def test_the_engine_has_its_troubles_and_is_told_of_them_before_the_message() -> None:
    played = scenario()
    treated = {(step.chat.key, step.mode): step for step in of_kind(played, Treat)}
    assert treated["anselmo", "fail"].times == 2 and treated["anselmo", "fail"].wait_s
    assert treated["kaua", "fail"].status == 422
    assert ("vanda", "conflict") in treated
    first = {step.chat.key: step.at_s for step in reversed(of_kind(played, Say))}
    assert all(step.at_s < first[key] for (key, mode), step in treated.items() if mode != "ok")
    windows = {step.chat.key: played.line_of(step.chat).window_ms / 1000 for step in of_kind(played, Say)}
    (late,) = [step for step in of_kind(played, Treat) if step.chat.key == "anselmo" and step.mode == "ok"]
    bursts = [step.at_s for step in of_kind(played, Say) if step.chat.key == "anselmo"]
    assert late.at_s < max(bursts) and late.at_s > bursts[0] + windows["anselmo"] + played.turn_s + 24


def test_a_long_turn_is_longer_than_two_windows_that_come_meanwhile() -> None:
    """So those two are merged: both jobs wait until it has ended."""
    for seconds in (12.0, 60.0):
        played = scenario(seconds)
        (slow,) = [step for step in of_kind(played, Treat) if (step.takes_s or 0) > 1]
        window_s = played.line_of(slow.chat).window_ms / 1000
        first = played.seconds * 17.0 / FULL_S
        mine = [step.at_s for step in of_kind(played, Say) if step.chat is slow.chat]
        second, third = [at for at in mine if first + window_s < at < first + window_s + (slow.takes_s or 0)][
            :2
        ]
        assert second + window_s < third, "they are two windows"
        assert third + window_s < first + window_s + (slow.takes_s or 0)


def test_what_can_not_be_squeezed_is_left_out_of_a_short_minute() -> None:
    short = scenario(20)
    assert not of_kind(short, Connect) and len(of_kind(scenario(), Connect)) == 2
    (overloaded,) = [step for step in of_kind(short, Treat) if step.times is not None]
    assert overloaded.times == 1, "the wait after a second failure is 20 s, whatever the engine says"


def test_waits_shrink_with_the_minute() -> None:
    waits = [
        sorted((step.wait_s, step.takes_s or 0.0) for step in of_kind(scenario(seconds), Treat))[-1]
        for seconds in (60.0, 30.0)
    ]
    assert waits[0][0] == pytest.approx(2 * waits[1][0])


def test_what_is_held_is_released() -> None:
    orders = of_kind(scenario(), Order)
    assert [step.action for step in orders] == ["hold", "release"]
    assert len({step.of for step in orders}) == 1


def test_what_a_step_refers_to_was_said_before() -> None:
    played = scenario()
    said_at = {step.label: step.at_s for step in of_kind(played, Say)}
    for step in (*of_kind(played, Read), *of_kind(played, Repeat), *of_kind(played, Order)):
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
