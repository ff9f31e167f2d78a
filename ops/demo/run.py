"""One run of the demo: find or start the stack, play, watch, account, clean up."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import psycopg
from rich.console import Console

from db.pool import conninfo_for
from ops.clinic import Connection
from ops.demo import stack
from ops.demo.accounts import Accounts, account, read_alerts, read_events, read_jobs
from ops.demo.beside import Flow
from ops.demo.board import Board
from ops.demo.happenings import Broke, Happening
from ops.demo.instances import StuckInstances
from ops.demo.links import Enrolments
from ops.demo.live import Screen
from ops.demo.place import FOLDER, NotCleaned, Place
from ops.demo.play import Player
from ops.demo.scenario import Scenario, scenario
from ops.demo.stage import Stage, set_stage
from ops.demo.stand_in import StandIn
from ops.demo.view import Silent, View, view_for
from ops.demo.watch import Rows, Topics
from ops.embedded.folder import DataFolder, Lock, open_folder
from ops.endpoints import STAND_IN, WEB, WHATSAPP
from ops.errors import AlreadyRunning, OpsError
from ops.given import shown
from ops.progress import Progress, progress_for
from ops.supervision.run_file import RunFile
from settings import Settings

_TICK_S: Final = 0.02
_LEAD_S: Final = 0.5
"""Between the first frame and the first message."""
_GRACE_S: Final = 30.0
"""How long after the last message everything may take to have an end."""
_ROWS_S: Final = 10.0
"""How long the rows may take to tell what the topics have told."""


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a run, and where it was."""

    accounts: Accounts
    kafka: str
    database_url: str
    home: Path
    prefix: str


class Unaccounted(OpsError):
    """Something of the run has no end, or more than one."""

    exit_code = 10


class _Quiet:
    """Progress of a start that nobody watches."""

    def show(self, views: object) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def ready(self, run: RunFile, home: object) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def run_demo(
    settings: Settings,
    console: Console,
    *,
    seconds: float,
    keep: bool,
    quiet: bool,
    tell: Callable[[Accounts], None] = lambda accounts: None,
) -> Run:
    """Play the minute in `seconds` and account for it.

    `keep` leaves the stack running for a look around; `quiet` shows nothing meanwhile; `tell` hears the
    accounts before the stack is stopped, which takes a few seconds. Raises AlreadyRunning,
    what starting can raise, psycopg.Error, or what a thread of the demo failed with.
    """
    played = scenario(seconds)
    folder = open_folder(settings.home / FOLDER)
    refusal = f"Another `rajada demo` runs in {folder.root}. Wait for its end, or set another RAJADA_HOME."
    with (
        Lock(folder.root / "demo.lock", refusal),
        _place(settings, folder, played, keep, quiet, console) as (place, run),
    ):
        here = place.settings(settings, run.kafka, run.database_url)
        with psycopg.connect(conninfo_for(run.database_url, "demo"), autocommit=True) as connection:
            stage = set_stage(connection, played)
            accounts = _play(played, stage, connection, here, run, console, quiet)
        tell(accounts)
        return Run(accounts, run.kafka, run.database_url, folder.root, place.prefix)


@contextmanager
def _place(
    settings: Settings, folder: DataFolder, played: Scenario, keep: bool, quiet: bool, console: Console
) -> Iterator[tuple[Place, RunFile]]:
    """The demo's place with its stack running; stopped and cleaned afterwards unless it is kept."""
    home = settings.model_copy(update={"home": folder.root})
    place, run = Place.last(folder), stack.found(home)
    if place is not None and run is None:
        _clear(place, folder, played, console)
        place = None
    if place is not None and not place.is_of(settings):
        raise AlreadyRunning(
            f"A demo that was kept runs in {folder.root}, on other servers. Stop it first: "
            f"`RAJADA_HOME={folder.root} rajada down`."
        )
    progress: Progress = _Quiet() if quiet else progress_for(console)
    if place is None or run is None:
        place = Place.new(settings, folder.root, kept=keep)
        place.prepare(folder)
    else:
        progress.close()
        place = place.keep(folder) if keep else place
    try:
        if run is None:
            run = stack.start(folder, place, played, progress)
        yield place, run
    finally:
        if not place.kept:
            stack.stop(folder, place, played)
            place.clean(folder)


def _clear(place: Place, folder: DataFolder, played: Scenario, console: Console) -> None:
    """Remove what a demo that was kept or killed has left; servers that are gone by now hinder nothing."""
    stack.stop(folder, place, played)
    try:
        place.clean(folder)
    except NotCleaned as error:
        console.print(str(error), style="yellow", markup=False)


def _listens(run: RunFile, name: str, home: Path) -> str:
    """Where a unit of the stack listens. Raises AlreadyRunning: an older demo's stack that lacks it."""
    url = next((unit.listens for unit in run.units if unit.name == name), "")
    if not url:
        raise AlreadyRunning(
            f"The demo that was kept in {home} has no {name}. Stop it first: `RAJADA_HOME={home} rajada "
            "down`."
        )
    return url


def _play(
    played: Scenario,
    stage: Stage,
    connection: Connection,
    settings: Settings,
    run: RunFile,
    console: Console,
    quiet: bool,
) -> Accounts:
    """Let the threads run until everything has an end, show it, and ask the rows."""
    bootstrap, url = settings.bootstrap(), settings.database()
    engine_url, web, whatsapp = (_listens(run, name, settings.home) for name in (STAND_IN, WEB, WHATSAPP))
    told: queue.SimpleQueue[Happening] = queue.SimpleQueue()
    stop = threading.Event()
    watchers = Topics(bootstrap, settings), Rows(url, stage.organization_ids)
    engine = StandIn(engine_url)
    player = Player(played, stage, connection, bootstrap, settings, engine, told.put)
    links = Enrolments(url, played.scale, told.put, web=web, whatsapp=whatsapp)
    instances = StuckInstances(
        url, played.scale, told.put, whatsapp=whatsapp, bootstrap=bootstrap, settings=settings
    )
    begun = time.monotonic() + _LEAD_S
    board = Board()
    frame = Screen(begun, played.seconds, bootstrap, shown(url), str(settings.home), engine.url)
    view: View = Silent() if quiet else view_for(console, board, frame)
    threads = [
        _thread(lambda: watchers[0].follow(told.put, stop), told.put),
        _thread(lambda: watchers[1].follow(told.put, stop), told.put),
        _thread(lambda: player.run(begun, stop), told.put),
        _thread(lambda: links.run(begun, stop), told.put),
        _thread(lambda: instances.run(begun, stop), told.put),
    ]
    try:
        _follow(board, view, told, begun + played.seconds + _GRACE_S, (links, instances))
    except KeyboardInterrupt:
        board.interrupted = True
        console.print("Stopped.", style="yellow")
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)
        view.close()
    if board.error is not None:
        raise board.error
    accounts = _accounts(board, stage, connection, engine, time.monotonic() - begun)
    return msgspec.structs.replace(accounts, links=links.told(), instances=instances.told())


def _follow(
    board: Board,
    view: View,
    told: queue.SimpleQueue[Happening],
    until: float,
    beside: Sequence[Flow],
) -> None:
    """Take in what happens until all is settled, something broke, or it is `until` (s, monotonic)."""

    def settled() -> bool:
        return board.settled and all(flow.ended for flow in beside)

    while not settled() and board.error is None and time.monotonic() < until:
        view.draw(time.monotonic())
        try:
            happening = told.get(timeout=_TICK_S)
        except queue.Empty:
            continue
        view.happened(happening, board.tell(happening))


def _thread(work: Callable[[], None], tell: Callable[[Happening], None]) -> threading.Thread:
    def run() -> None:
        try:
            work()
        except Exception as error:
            tell(Broke(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def _accounts(
    board: Board, stage: Stage, connection: Connection, engine: StandIn, seconds: float
) -> Accounts:
    """The accounts; the rows are asked again for a while when they don't tell yet what the topics did."""
    until = time.monotonic() + (_ROWS_S if board.settled else 0.0)
    while True:
        accounts = account(
            board,
            read_events(connection, stage.organization_ids),
            read_jobs(connection, stage.organization_ids),
            engine.effects(),
            alerts=read_alerts(connection, stage.organization_ids),
            seconds=seconds,
        )
        if accounts.right or time.monotonic() > until:
            return accounts
        time.sleep(0.1)
