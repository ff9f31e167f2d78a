"""A relay as a process of its own, to be killed: `python -m … URL BOOTSTRAP PREFIX NAME`."""

import sys
import threading

from db.relay import run_relay
from settings import Settings

if __name__ == "__main__":
    url, bootstrap, prefix, name = sys.argv[1:]
    run_relay(url, bootstrap, Settings(topic_prefix=prefix, slot=name, publication=name), threading.Event())
