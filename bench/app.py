"""The worker's application as benchmarks measure it: our transport, and nothing of the pipeline."""

from __future__ import annotations

import faust

from streams.transport import Table


def measured_app(name: str, bootstrap: str, data: str, partitions: int) -> faust.App:
    """An application of that name whose tables are ours, with the pace of the real worker."""
    return faust.App(
        name,
        broker=f"batched://{bootstrap}",
        store="batchmem://",
        Table=Table,
        web_enabled=False,
        datadir=data,
        topic_partitions=partitions,
        topic_disable_leader=True,
        stream_recovery_delay=0.0,
        stream_buffer_maxsize=16,
        consumer_auto_offset_reset="earliest",
        broker_session_timeout=6.0,
        broker_heartbeat_interval=2.0,
        broker_commit_interval=1.0,
        producer_linger=0.005,
        table_standby_replicas=0,
    )
