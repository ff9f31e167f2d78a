"""What Faust finds under our schemes: `batched://` for brokers, `batchmem://` for stores."""

from faust.stores import STORES
from faust.transport.drivers import TRANSPORTS, aiokafka

from .consumer import Consumer
from .producer import Producer
from .table import Store


class Transport(aiokafka.Transport):
    """Faust transport of the scheme `batched://`."""

    Consumer = Consumer
    Producer = Producer


TRANSPORTS.aliases["batched"] = f"{__name__}:{Transport.__name__}"
STORES.aliases["batchmem"] = f"{Store.__module__}:{Store.__name__}"
