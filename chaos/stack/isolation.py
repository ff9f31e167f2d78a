"""A network of a run's own, where that is allowed: nobody takes the port of a server that is just away.

In it the loopback can be slow as a whole, Kafka's connections too, if the kernel has netem.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
from typing import Final

_CLONE_NEWNET: Final = 0x40000000
_SIOCGIFFLAGS: Final = 0x8913
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 1
NETEM_DELAY: Final = "10ms"
NETEM_LOSS: Final = "0.5%"
"""Each way over the loopback."""


def own_network() -> bool:
    """Move this process into a network namespace with a loopback; False: not allowed, all stays as it is.

    It holds for this thread and all that it starts, so it is called first.
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) != 0:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sh", b"lo", 0)
        (flags,) = struct.unpack("16xh", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, asked)[:18])
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | _IFF_UP))
    return True


class Netem:
    """The slow loopback of a network of one's own."""

    def __init__(self, isolated: bool) -> None:
        self._tc = shutil.which("tc") if isolated else None
        self.works = self.slow()
        """Whether the kernel has it."""
        self.fast()

    def slow(self) -> bool:
        """Delay and lose packets; False: it can't be done."""
        return self._qdisc("add", "netem", "delay", NETEM_DELAY, "loss", NETEM_LOSS)

    def fast(self) -> None:
        """As it was."""
        self._qdisc("del")

    def _qdisc(self, what: str, *how: str) -> bool:
        if self._tc is None:
            return False
        command = [self._tc, "qdisc", what, "dev", "lo", "root", *how]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
