"""Our Faust transport: batches, offsets guarded by a ledger, a librdkafka producer, fenced tables.

Importing a name of it registers the URL schemes `batched://` for brokers and `batchmem://` for stores:

    from streams.transport import Batched, Table, each_batch

    app = faust.App(..., broker="batched://host:port", store="batchmem://", Table=Table)
    topic = app.topic(name, schema=Batched())

    @app.agent(topic)
    async def agent(stream):
        await each_batch(stream, work)

Faust is imported with the first name: who only reads what the transport writes (`.token`) does without.
See docs/transport.md for what it guarantees and why.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .batches import Batched, Record, Work, each_batch
    from .consumer import Consumer
    from .driver import Transport
    from .errors import FenceRefused, LeaseLost, NotOwned, StateIncomplete, TransportError
    from .failure import EXIT_CODE, end_process, vital
    from .ledger import Ledger
    from .producer import Producer
    from .records import RecordEvent, Stream
    from .security import credentials
    from .table import Store, Table, create_table

__all__ = [
    "EXIT_CODE",
    "Batched",
    "Consumer",
    "FenceRefused",
    "LeaseLost",
    "Ledger",
    "NotOwned",
    "Producer",
    "Record",
    "RecordEvent",
    "StateIncomplete",
    "Store",
    "Stream",
    "Table",
    "Transport",
    "TransportError",
    "Work",
    "create_table",
    "credentials",
    "each_batch",
    "end_process",
    "vital",
]

_MODULES = (
    "batches", "consumer", "driver", "errors", "failure", "ledger", "producer", "records", "security",
    "table",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """A public name: looked for in its module, once."""
    if name in __all__:
        import_module(f"{__name__}.driver")  # registers the schemes
        for module in _MODULES:
            found = vars(import_module(f"{__name__}.{module}"))
            if name in found:
                globals()[name] = found[name]
                return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
