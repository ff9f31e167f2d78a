"""Our Faust transport: batches, offsets guarded by a ledger, a librdkafka producer, fenced tables.

Importing this package registers the URL scheme `batched://` for brokers and `batchmem://` for stores:

    app = faust.App(..., broker="batched://host:port", store="batchmem://", Table=Table)
    topic = app.topic(name, schema=Batched())

    @app.agent(topic)
    async def agent(stream):
        await each_batch(stream, work)

See docs/transport.md for what it guarantees and why.
"""

from faust.stores import STORES
from faust.transport.drivers import TRANSPORTS
from faust.transport.drivers import aiokafka as driver

from .batches import Batched, Record, Work, each_batch
from .consumer import Consumer
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


class Transport(driver.Transport):
    """Faust transport of the scheme `batched://`."""

    Consumer = Consumer
    Producer = Producer


TRANSPORTS.aliases["batched"] = f"{__name__}:Transport"
STORES.aliases["batchmem"] = f"{__name__}:Store"
