"""What importing the package costs, and that all it promises is there."""

from __future__ import annotations

import subprocess
import sys

import pytest
from faust.stores import STORES
from faust.transport.drivers import TRANSPORTS

import streams.transport as transport


def test_who_reads_what_it_writes_imports_no_faust() -> None:
    asked = "import sys, streams.transport.token; sys.exit('faust' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", asked], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize("name", transport.__all__)
def test_each_public_name_is_there(name: str) -> None:
    assert getattr(transport, name) is vars(transport)[name], "looked for once"


def test_a_name_that_is_not_is_told_by_its_name() -> None:
    with pytest.raises(AttributeError, match=r"streams\.transport.*Bached"):
        transport.__getattr__("Bached")


def test_faust_finds_both_under_their_schemes() -> None:
    assert transport.Transport is TRANSPORTS.by_name("batched")
    assert transport.Store is STORES.by_name("batchmem")
