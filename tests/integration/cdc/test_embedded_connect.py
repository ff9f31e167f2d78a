"""The embedded Kafka Connect: its archive of classes, its port, its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.cdc.files import worker_environment
from ops.cdc.rest import Connect
from ops.embedded.connect import EmbeddedConnect
from ops.embedded.training import train_connect
from settings import Settings

pytestmark = pytest.mark.long


def test_a_trained_archive_is_used_a_broken_one_does_no_harm_and_the_port_stays(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    environment = worker_environment(Settings(topic_prefix=prefix), kafka, "postgresql://")
    connect = EmbeddedConnect(tmp_path / "home", lambda: environment)
    archive = train_connect(connect, 256)
    assert archive.stat().st_size > 1 << 20
    assert [each for each in archive.parent.iterdir() if each.name.startswith("training-")] == []
    with connect:
        assert any(str(archive) in part for part in connect.command())
        url = connect.url
        connect.kill()
        assert not connect.answers()
        archive.write_bytes(b"broken")
        connect.start()
        assert connect.url == url
        with Connect(url) as rest:
            assert rest.names() == []
            assert rest.condition("nobody").state == "ABSENT" and rest.position("nobody") is None
    assert connect.pid is None
