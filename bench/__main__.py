"""`python -m bench [PARTS…]`: measure, tell, and keep what was found in `docs/benchmarks/`.

Parts run one after the other, on the servers that KAFKA_BOOTSTRAP_SERVERS and DATABASE_URL (a superuser's)
name, else on embedded ones. A part's figures are written after each of its pieces and when it ends, so that
a run can be broken off and gone on with by part; one that fails says so and the next begins. Only whole runs
are kept in `docs/benchmarks/`: quick ones, and those of fewer rounds, of some lines or of other sizes, go to
`build/benchmarks/`. Exit code 1 when a part failed, or, with `--strict`, when a bar is missed; a `--quick`
run also guards the committed ratio (`bench.guard`).
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench import guard, machine
from bench.part import Part, Run, SharedServers, first_line
from bench.registry import PARTS, chosen
from bench.results import Found, Result, save
from bench.tell import tell
from logs import configure_logging
from settings import Settings

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "docs" / "benchmarks"
ELSEWHERE = ROOT / "build" / "benchmarks"
ROUNDS = 3


BROKEN_OFF = "broken off before its end"


class Begun:
    """A part that runs: when it began, and how its result is put together at any time."""

    def __init__(self, part: Part, given: argparse.Namespace) -> None:
        self._part, self._given = part, given
        self._at, self._load, self._clock = datetime.now(UTC), machine.load(), time.monotonic()

    def result(self, found: Found, *lacks: str) -> Result:
        """What was found by now; `lacks`: what it lacks beside what failed."""
        return Result(
            part=self._part.name,
            title=self._part.title,
            method=self._part.method,
            at=self._at.isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - self._clock, 1),
            quick=self._given.quick,
            rounds=self._given.rounds,
            load_before=self._load,
            load_after=machine.load(),
            machine=machine.machine(),
            versions=machine.versions() | found.versions,
            tables=tuple(found.tables),
            bars=tuple(found.bars),
            notes=tuple(found.notes),
            peers_method=found.peers_method,
            failed="; ".join([*found.failed, *lacks]),
        )


def measured(part: Part, given: argparse.Namespace, shared: SharedServers, say: Console) -> Result:
    """Run a part; a failure is in its result, beside what it had found.

    What was found is kept after each piece and when the run is broken off (a signal, the keyboard).
    """
    found, begun = Found(), Begun(part, given)
    run = Run(
        rounds=given.rounds,
        quick=given.quick,
        only=frozenset(filter(None, given.only.split(","))),
        sizes=dict(given.size),
        wrap=tuple(given.wrap.split()),
        say=lambda line: say.print(f"  {line}", markup=False, highlight=False),
        shared=shared,
        found=found,
        keep=lambda: save(begun.result(found, BROKEN_OFF), given.out),
    )
    try:
        importlib.import_module(part.module).run(run)
        if shared.started:
            found.versions |= machine.server_versions(shared.get())
    except Exception as error:  # told on the page and by the exit code; the other parts are not worse for it
        found.failed.append(first_line(error))
        say.print(traceback.format_exc(), markup=False, highlight=False)
        shared.close()
    except BaseException:
        run.keep()
        raise
    return begun.result(found)


def measure_all(parts: list[Part], given: argparse.Namespace, say: Console) -> list[Result]:
    """Run the parts in turn, keeping each one's figures as soon as it ends."""
    shared, results = SharedServers(), []
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:g} of {task.total:g}"),
        TimeElapsedColumn(),
        console=say,
        transient=True,
    )
    try:
        with bar:
            task = bar.add_task("", total=len(parts))
            for part in parts:
                bar.update(task, description=part.name)
                say.rule(f"{part.name}: about {_long(part, given.quick)}", align="left")
                results.append(measured(part, given, shared, say))
                save(results[-1], given.out)
                bar.advance(task)
    finally:
        shared.close()
    return results


def _long(part: Part, quick: bool) -> str:
    if quick and part.quick_s is not None:
        return f"{part.quick_s:.0f} s"
    return f"{part.minutes:g} min"


def picture(folder: Path, say: Console) -> None:
    """Plots and page of all that `folder` holds; without matplotlib the figures alone are kept."""
    from bench import page

    try:
        from bench import plots
    except ImportError:
        say.print("no plots: pip install 'rajada[bench]'", markup=False)
    else:
        plots.draw_all(folder)
    page.write(folder, page.PAGE if folder == KEPT else folder / "benchmarks.md")


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    names = "\n".join(
        f"  {one.name:12} {one.title} ({one.minutes:g} min{'' if one.quick_s is None else ', quick'})"
        for one in PARTS
    )
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=(__doc__ or "") + f"\nParts:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="which; default: all")
    parser.add_argument("--quick", action="store_true", help="the subset of make bench-quick")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", help="lines by name, with commas: ours,plain-loop")
    parser.add_argument(
        "--size", action="append", default=[], type=_size, metavar="NAME=N", help="a part's size; may repeat"
    )
    parser.add_argument("--out", type=Path, help="folder; docs/benchmarks, less than whole: build/benchmarks")
    parser.add_argument("--wrap", default="", help="a profiler's command before the worker's (main-path)")
    parser.add_argument("--json", action="store_true", help="the figures on stdout, for programs")
    parser.add_argument("--page", action="store_true", help="measure nothing, draw what is there")
    parser.add_argument("--strict", action="store_true", help="a missed bar is a failure")
    parser.add_argument("--commit-guard", action="store_true", help="keep this ratio to compare with")
    given = parser.parse_args(arguments)
    less = less_than_whole(given)
    if less and not given.page and given.out is not None and given.out.resolve() == KEPT:
        parser.error(f"{less}: not a whole run, and docs/benchmarks keeps no other; name another folder")
    given.out = (given.out or (ELSEWHERE if less else KEPT)).resolve()
    return given


def less_than_whole(given: argparse.Namespace) -> str:
    """What keeps a run's figures from standing beside those of whole ones; empty: nothing."""
    lacks = {
        "--quick": given.quick,
        f"--rounds {given.rounds} (below {ROUNDS})": given.rounds < ROUNDS,
        "--only": bool(given.only),
        "--size": bool(given.size),
        "--wrap": bool(given.wrap),
    }
    return ", ".join(name for name, is_so in lacks.items() if is_so)


def _size(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError("NAME=N")
    return name, int(value.replace("_", ""))


def main() -> int:
    """Measure and tell."""
    given = parsed()
    say = Console(stderr=True, highlight=False)
    configure_logging(Settings(log_level="WARNING"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    if given.page:
        picture(given.out, say)
        return 0
    try:
        parts = chosen(given.parts, quick=given.quick)
    except KeyError as error:
        say.print(f"no part {error}; there are: {', '.join(one.name for one in PARTS)}")
        return 2
    results = measure_all(parts, given, say)
    if given.json:
        print(msgspec.json.encode(results).decode())
    else:
        console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
        for result in results:
            console.rule(result.title, align="left")
            tell(result, console)
    picture(given.out, say)
    failed = [one.part for one in results if one.failed]
    missed = [bar for one in results for bar in one.bars if bar.missed]
    say.print(f"figures in {given.out}", markup=False)
    if failed:
        say.print(f"[red]failed:[/] {', '.join(failed)}")
    guarded = guard.judge(results, say, commit=given.commit_guard) if given.quick else True
    return 1 if failed or not guarded or (given.strict and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
