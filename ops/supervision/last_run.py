"""How the last run in a data folder ended, from the run file that it left (`rajada status`)."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from ops.supervision.run_file import RunFile, strays_of


def how_it_ended(last: RunFile | None) -> str:
    """What is known of it and what to do, in words.

    A clean stop leaves no run file. One without an error is that of a supervisor that was killed, or of a
    machine that went down.
    """
    if last is None:
        return "`rajada up` starts it."
    if last.error:
        return f"`rajada up` starts it. The last start failed: {last.error}"
    begun = datetime.fromtimestamp(last.started_at, UTC).astimezone()
    left = [unit.name for unit, _ in strays_of(last)]
    live = (
        f"Still there: {', '.join(left)}; `rajada down` ends them."
        if left
        else "None of its processes lives."
    )
    return (
        f"The supervisor that was started at {begun:%Y-%m-%d %H:%M:%S} (process {last.supervisor_pid}) is "
        f"gone without having stopped: it was killed, or the machine went down. {live} `rajada up` goes on "
        "where it was; nothing that was acknowledged is lost."
    )


def ended_as_json(last: RunFile | None) -> str:
    """The same for programs: `stopped`, `failed` with its error, or `killed` with what still lives."""
    if last is None:
        told: dict[str, object] = {"state": "stopped"}
    elif last.error:
        told = {"state": "failed", "error": last.error}
    else:
        left = [{"name": unit.name, "pid": process.pid} for unit, process in strays_of(last)]
        told = {"state": "killed", "supervisor_pid": last.supervisor_pid, "still_there": left}
    return msgspec.json.encode(told).decode()
