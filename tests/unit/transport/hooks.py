"""Everything of Faust, mode and aiokafka that the transport overrides, reaches into, or counts on.

`python -m tests.unit.transport.hooks` writes `hooks.json` anew: do that after you have read what changed.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import json
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import aiokafka.cluster
import aiokafka.consumer.consumer
import aiokafka.consumer.fetcher
import aiokafka.consumer.group_coordinator
import aiokafka.consumer.subscription_state
import aiokafka.record.default_records
import faust.agents.agent
import faust.app.base
import faust.sensors.monitor
import faust.streams
import faust.tables.base
import faust.tables.manager
import faust.tables.recovery
import faust.topics
import faust.transport.base
import faust.transport.conductor
import faust.transport.consumer
import faust.transport.drivers.aiokafka

import streams.transport

FOLDER = Path(streams.transport.__file__).parent
STORED = Path(__file__).with_suffix(".json")
FOREIGN = ("faust", "mode", "aiokafka")

REACHED_INTO: dict[str, tuple[object, ...]] = {
    "_acked": (faust.transport.consumer.Consumer,),
    "_acked_index": (faust.transport.consumer.Consumer,),
    "_buffer": (aiokafka.record.default_records._DefaultRecordBatchPy,),
    "_closed": (aiokafka.consumer.consumer.AIOKafkaConsumer, aiokafka.consumer.fetcher.Fetcher),
    "_committed_offset": (faust.transport.consumer.Consumer,),
    "_consumer": (faust.transport.drivers.aiokafka.AIOKafkaConsumerThread,),
    "_consumer_record": (aiokafka.consumer.fetcher.PartitionRecords,),
    "_coordinator": (aiokafka.consumer.consumer.AIOKafkaConsumer,),
    "_client": (aiokafka.consumer.consumer.AIOKafkaConsumer,),
    "_create_fetch_waiter": (aiokafka.consumer.fetcher.Fetcher,),
    "_default_reset_strategy": (aiokafka.consumer.fetcher.Fetcher,),
    "_ensure_consumer": (faust.transport.drivers.aiokafka.AIOKafkaConsumerThread,),
    "_fetch_max_wait_ms": (aiokafka.consumer.consumer.AIOKafkaConsumer,),
    "_fetcher": (aiokafka.consumer.consumer.AIOKafkaConsumer,),
    "_get_active_partitions": (faust.transport.consumer.Consumer,),
    "_getmany": (faust.transport.consumer.ThreadDelegateConsumer,),
    "_is_changelog_tp": (faust.transport.consumer.Consumer,),
    "_isolation_level": (aiokafka.consumer.consumer.AIOKafkaConsumer,),
    "_maybe_uncompress": (aiokafka.record.default_records._DefaultRecordBatchPy,),
    "_num_records": (aiokafka.record.default_records._DefaultRecordBatchPy,),
    "_perform_assignment": (aiokafka.consumer.group_coordinator.GroupCoordinator,),
    "_pos": (aiokafka.record.default_records._DefaultRecordBatchPy,),
    "_position": (aiokafka.consumer.subscription_state.TopicPartitionState,),
    "_read_offset": (faust.transport.consumer.Consumer,),
    "_records": (aiokafka.consumer.fetcher.PartitionRecords,),
    "_records_iterator": (aiokafka.consumer.fetcher.PartitionRecords,),
    "_send_req": (aiokafka.consumer.group_coordinator.GroupCoordinator,),
    "_subscription": (aiokafka.consumer.consumer.AIOKafkaConsumer,),
    "_subscriptions": (aiokafka.consumer.fetcher.Fetcher,),
    "_thread": (faust.transport.consumer.ThreadDelegateConsumer,),
    "_to_message": (faust.transport.drivers.aiokafka.Consumer,),
    "_topic_config": (faust.transport.drivers.aiokafka.Transport,),
    "_topic_name_index": (faust.transport.conductor.Conductor,),
    "_topic_name_or_default": (faust.topics.Topic,),
    "_tp": (aiokafka.consumer.fetcher.PartitionRecords,),
    "_unacked_messages": (faust.transport.consumer.Consumer,),
    "_unpack_records": (aiokafka.consumer.fetcher.PartitionRecords,),
    "_update_fetch_positions": (aiokafka.consumer.fetcher.Fetcher,),
}
"""Private names that we use, and the classes whose they are."""

COUNTED_ON: tuple[object, ...] = (
    faust.agents.agent.Agent._execute_actor,
    faust.app.base.App._consumer_wait_empty,
    faust.app.base.App._on_agent_error,
    faust.app.base.App._on_partitions_assigned,
    faust.app.base.App._on_partitions_revoked,
    faust.sensors.monitor.Monitor.on_message_in,
    faust.sensors.monitor.Monitor.on_stream_event_in,
    faust.streams.Stream._c_aiter,
    faust.streams.Stream._py_aiter,
    faust.streams.Stream.noack,
    faust.tables.base.Collection,
    faust.tables.manager.TableManager,
    faust.tables.recovery.Recovery,
    faust.transport.conductor.ConductorCompiler,
    faust.transport.consumer.Consumer._drain_messages,
    faust.transport.consumer.Consumer.commit,
    faust.transport.consumer.Consumer.force_commit,
    faust.transport.consumer.Consumer.wait_empty,
    faust.transport.drivers.aiokafka.ConsumerRebalanceListener,
    aiokafka.consumer.consumer.AIOKafkaConsumer.commit,
    aiokafka.consumer.fetcher.Fetcher.fetched_records,
    aiokafka.consumer.group_coordinator.GroupCoordinator,
    aiokafka.consumer.group_coordinator.CoordinatorGroupRebalance,
)
"""What nobody overrides, but whose steps we rely on."""


def own_classes() -> Iterator[type]:
    """The transport's classes."""
    for module in pkgutil.iter_modules([str(FOLDER)], "streams.transport."):
        loaded = importlib.import_module(module.name)
        for found in vars(loaded).values():
            if inspect.isclass(found) and found.__module__ == loaded.__name__:
                yield found
    yield streams.transport.Transport


def overridden() -> Iterator[tuple[str, object]]:
    """Members of foreign classes that ours replace."""
    for own in own_classes():
        for name, member in vars(own).items():
            if name in ("__module__", "__doc__", "__init__", "__orig_bases__", "__parameters__"):
                continue
            if not (inspect.isroutine(member) or isinstance(member, property)):
                continue
            for base in own.__mro__[1:]:
                if base.__module__.split(".")[0] in FOREIGN and name in vars(base):
                    yield f"{base.__module__}.{base.__qualname__}.{name}", vars(base)[name]
                    break


def private_names() -> set[str]:
    """Private names that our sources use and none of them defines."""
    used: set[str] = set()
    defined: set[str] = set()
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Attribute)
                and node.attr.startswith("_")
                and not node.attr.startswith("__")
            ):
                used.add(node.attr)
                if isinstance(node.ctx, ast.Store) and _is_self(node.value):
                    defined.add(node.attr)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                defined.add(node.name)
            elif isinstance(node, ast.AnnAssign | ast.Assign):
                targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
                defined |= {target.id for target in targets if isinstance(target, ast.Name)}
    return (used - defined - {"_exit"}) | (used & REACHED_INTO.keys())


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def hooks() -> dict[str, str]:
    """Name → the beginning of its source's SHA-256."""
    found = dict(overridden())
    for owners in REACHED_INTO.values():
        found |= {f"{owner.__module__}.{owner.__qualname__}": owner for owner in owners}
    found |= {f"{one.__module__}.{one.__qualname__}": one for one in COUNTED_ON}
    digests = {name: digest(member) for name, member in sorted(found.items())}
    compiled = Path(faust.__file__).parent / "_cython" / "streams.pyx"
    digests["faust/_cython/streams.pyx"] = hashlib.sha256(compiled.read_bytes()).hexdigest()[:16]
    return digests


def digest(member: object) -> str:
    """Of a function's, property's or class's source."""
    member = getattr(member, "fget", member)
    member = inspect.unwrap(getattr(member, "__func__", member))
    try:
        source = inspect.getsource(member)
    except TypeError:  # something that a decorator made
        source = type(member).__name__
    return hashlib.sha256(source.encode()).hexdigest()[:16]


if __name__ == "__main__":
    STORED.write_text(json.dumps(hooks(), indent=1) + "\n")
