"""Hurt the whole native stack at random, then audit it.

    python -m chaos.stack --seconds 600                       # a seed is drawn, and printed
    python -m chaos.stack --seconds 180 --seed 7
    python -m chaos.stack --seed 7 --seconds 180 --only 3,9   # of that plan these faults alone
    python -m chaos.stack --faults kill,stop,controller       # these kinds alone
    python -m chaos.stack --faults bounded --seconds 75       # what any machine gets over soon: for CI

Exit status 1: something is wrong; the run's folder is kept then, with logs, plan and books.
"""

from __future__ import annotations

import argparse
import logging
import random
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

import structlog
from rich.console import Console

from chaos.stack import plan as planning
from chaos.stack.report import as_json, keep_books, show
from chaos.stack.runner import Report, cannot, run
from chaos.stack.running import room_for, under_load
from chaos.stack.servers import serving


def main() -> int:
    """Command line; returns the exit status."""
    options = _options()
    console = Console(stderr=options.json, highlight=False)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)  # clients that die are what this is about
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    console.print(f"seed {seed}, {options.seconds:.0f} s, {options.rate:.0f} events/s")
    again = shlex.join(sys.argv[1:] if options.seed is not None else [*sys.argv[1:], f"--seed={seed}"])
    console.print(f"again: python -m chaos.stack {again}", soft_wrap=True)
    folder = room_for(Path(tempfile.mkdtemp(prefix="rajada-chaos-stack-", dir=options.dir)))
    report = _run(options, seed, folder, console)
    show(report, console)
    if options.json:
        sys.stdout.buffer.write(as_json(report) + b"\n")
    if options.report:
        options.report.parent.mkdir(parents=True, exist_ok=True)
        options.report.write_bytes(as_json(report))
    if report.findings or options.keep:
        keep_books(report, folder / "books.json")
        (folder / "report.json").write_bytes(as_json(report))
        console.print(f"logs and books: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if report.findings else 0


def _run(options: argparse.Namespace, seed: int, folder: Path, console: Console) -> Report:
    with serving(folder) as servers:
        unable = cannot(servers)
        for kind, why in unable.items():
            console.print(f"[yellow]{kind}[/]: {why}; the run goes on without it")
        if not servers.netem.works:
            console.print("[yellow]slow[/]: no netem here; Postgres and the engine are slow, Kafka is not")
        kinds = [one for one in options.faults or planning.KINDS if one not in unable]
        faults = planning.plan(seed, options.seconds, kinds)
        if options.only:
            faults = planning.only(faults, options.only)
        uses_clock = any(one.kind == "clock" for one in faults)
        with under_load(
            servers, rate=options.rate, contacts=options.contacts, seed=seed, clocks=uses_clock
        ) as running:
            report = run(running, faults, options.seconds, seed, lambda line: console.print(line))
        report.not_made += [f"{kind}: {why}" for kind, why in unable.items()]
        return report


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos.stack", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=600.0, help="length of the load")
    parser.add_argument("--seed", type=int, help="of the plan; none: one is drawn and printed")
    parser.add_argument(
        "--faults", type=_kinds, help=f"these kinds alone, or `bounded`: {', '.join(planning.KINDS)}"
    )
    parser.add_argument("--only", type=_numbers, help="of the planned faults these alone, by number: 3,9")
    parser.add_argument("--rate", type=float, default=40.0, help="events a second")
    parser.add_argument("--contacts", type=int, default=400)
    parser.add_argument("--dir", type=Path, help="where the run's folder is made")
    parser.add_argument("--keep", action="store_true", help="keep the folder, also if all is well")
    parser.add_argument("--json", action="store_true", help="the report as JSON on standard output")
    parser.add_argument("--report", type=Path, help="write the report as JSON to this file, too")
    return parser.parse_args()


def _kinds(text: str) -> list[str]:
    names = [one.strip() for one in text.split(",") if one.strip()]
    if names == ["bounded"]:
        return list(planning.BOUNDED)
    if unknown := set(names) - planning.KINDS.keys():
        raise argparse.ArgumentTypeError(f"no such kind: {', '.join(sorted(unknown))}")
    return names


def _numbers(text: str) -> list[int]:
    return [int(one) for one in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
