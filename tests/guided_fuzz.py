"""Fuzzing that follows the code it runs through: each decoder of `tests/unit/test_fuzz.py` under atheris.

    make fuzz                                             # each for a minute
    python -m tests.guided_fuzz job -max_total_time=600   # one, with options of libFuzzer

Begins with a good record. Anything but an answer or a refusal in the decoder's own words ends it with the
bytes in a file `crash-…`: those belong into the tests.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

import atheris

OURS: Final = ["schemas", "streams", "db", "ops", "web"]
SECONDS: Final = 60

with atheris.instrument_imports(include=OURS):
    from tests.unit.test_fuzz import DECODERS


def fuzz(name: str, options: list[str]) -> None:
    """Never returns: libFuzzer ends the process, with status 0 only when nothing was found."""
    decode, may_raise, good = DECODERS[name]
    corpus = Path(tempfile.mkdtemp(prefix="rajada-fuzz-"))
    (corpus / "good").write_bytes(good)

    def one(data: bytes) -> None:
        with suppress(may_raise):
            decode(data)

    atheris.Setup([sys.argv[0], *options, str(corpus)], one)
    atheris.Fuzz()


def main() -> int:
    """One decoder by its name, else all, one after the other; returns how many failed."""
    if len(sys.argv) > 1:
        if sys.argv[1] not in DECODERS:
            print(f"There is no decoder {sys.argv[1]!r}. There are: {', '.join(DECODERS)}", file=sys.stderr)
            return 2
        fuzz(sys.argv[1], sys.argv[2:])
    failed = 0
    for name in DECODERS:
        command = [sys.executable, "-m", "tests.guided_fuzz", name, f"-max_total_time={SECONDS}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        told = [line for line in done.stderr.splitlines() if line.startswith(("Done", "==", "INFO: exit"))]
        print(f"{name}: {'ok' if done.returncode == 0 else 'FAILED'} {told[-1] if told else ''}", flush=True)
        if done.returncode != 0:
            print(done.stderr[-3000:], file=sys.stderr)
        failed += done.returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
