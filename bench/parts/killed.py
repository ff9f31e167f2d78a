"""Part `killed`: one `kill -9` in the middle of a live stream, ours beside the peers that read the topic."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from bench import workload
from bench.fleet import longest_pause_s
from bench.guard import OURS
from bench.part import Run
from bench.peer import Unavailable
from bench.peers import killing
from bench.peers.killing import Killed
from bench.peers.measuring import Streaming
from bench.peers.method import PEERS_METHOD
from bench.results import Bar, Line, Table
from bench.servers import own_database


@dataclass(slots=True)
class Victim:
    """A line while it is measured."""

    name: str
    kill: Callable[[], Killed]
    rounds: list[Killed] = field(default_factory=list)


def run(run: Run) -> None:
    """Kill each once a round, in turn."""
    events = run.size("events", killing.EVENTS)
    with own_database(run.at.admin_url) as url:
        made = workload.make(url, events=events, contacts=max(1, events // workload.PER_WINDOW))
        victims = [Victim(OURS, lambda: killing.kill_ours(made, run.at, url))] if run.wants(OURS) else []
        victims += _peers(run, lambda peer: partial(killing.kill_peer, peer, made, run.at, url))
        for number in range(1, run.rounds + 1):
            for one in [*victims]:
                if not _killed(run, number, one):
                    victims.remove(one)
    lines = tuple(_line(one) for one in victims if one.rounds)
    if lines:
        run.found.tables.append(_table(events, lines))
    for one in victims:
        if one.name == OURS and one.rounds:
            lost = sum(each.audit.lost for each in one.rounds)
            doubled = sum(each.audit.doubled + each.audit.changed for each in one.rounds)
            run.found.bars.append(Bar("ours, events lost by a kill", lost, "=", 0))
            run.found.bars.append(Bar("ours, events in two different jobs after it", doubled, "=", 0))
            pause = max(each.pause_s or each.away_s for each in one.rounds)
            run.found.bars.append(Bar("ours, longest pause after a kill", pause, "≤", longest_pause_s(), "s"))


def _peers(run: Run, kill_of: Callable[[Streaming], Callable[[], Killed]]) -> Iterator[Victim]:
    """Those that can run here and are asked for; the others are told."""
    known = importlib.import_module("bench.peers")
    for peer in (*known.KAFKA_STREAMS[:2], known.QUIX, known.FAUST):
        if not run.wants(peer.name):
            continue
        try:
            peer.command()
        except Unavailable as error:
            run.found.notes.append(f"{peer.name}: {error}")
        else:
            run.found.peers_method = PEERS_METHOD
            yield Victim(peer.name, kill_of(peer))


def _killed(run: Run, number: int, one: Victim) -> bool:
    """Whether it went well; a peer that failed is told and left out from then on, ours ends the part."""
    try:
        killed = one.kill()
    except Exception as error:
        if one.name == OURS:
            raise
        told = f"{one.name}: {next(iter(str(error).splitlines()), repr(error))}"
        run.found.notes.append(told)
        run.say(told)
        return bool(one.rounds)
    one.rounds.append(killed)
    found = killed.audit
    run.say(
        f"round {number} {one.name:18} {found.doubled:,} events in two jobs, {found.changed:,} in one that "
        f"changed, {found.lost:,} lost, {found.again:,} sent again; back after {killed.away_s:.1f} s"
    )
    return True


def _line(one: Victim) -> Line:
    rounds = [each.audit for each in one.rounds]
    pauses = [each.pause_s for each in one.rounds if each.pause_s is not None]
    return Line(
        name=one.name,
        rounds=tuple(float(each.doubled) for each in rounds),
        also={
            "lost": float(max(each.lost for each in rounds)),
            "in a job that changed": float(max(each.changed for each in rounds)),
            "sent again": float(max(each.again for each in rounds)),
            "job records before": float(min(each.before for each in one.rounds)),
            "back after s": round(max(each.away_s for each in one.rounds), 1),
            **({"longest pause s": round(max(pauses), 1)} if pauses else {}),
        },
        peak_mib=max(each.peak_mib for each in one.rounds),
    )


def _table(events: int, lines: tuple[Line, ...]) -> Table:
    return Table(
        title=f"One kill -9 in the middle of {events:,} events",
        unit="events in two jobs",
        lines=lines,
        better="less",
        chart="none",
        note=(
            "In two jobs: under two job ids. In a job that changed: its id was sent again with other "
            "events. Sent again: in more than one record, whatever its id; who knows the id may drop it. "
            "Longest pause: how long any window waited for its outcome beyond its deadline. The most of any "
            "round."
        ),
    )
