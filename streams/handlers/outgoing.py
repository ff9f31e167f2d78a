"""Where a call may go: which hosts, and which addresses of theirs (docs/security.md).

A URL stands in the settings, but what its name leads to stands in a DNS that others write. So a name is
worth what its address is: a public one is called, a private one only if the settings say so. Who spells an
address out (`http://10.0.0.7:8080/turns`, `http://localhost:8099/turns`) has said so.

Pure: no name is asked for here.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Self, TypeAlias

from setting_values import PRIVATE_NETWORKS, host_fits
from settings import Settings

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

HOST_REFUSED: Final = "host_refused"
ADDRESS_REFUSED: Final = "address_refused"
REFUSED: Final = frozenset({HOST_REFUSED, ADDRESS_REFUSED})
"""Codes of calls that were not made because the settings don't allow them."""

_NAT64: Final = IPv6Network("64:ff9b::/96")
_LOCALHOST: Final = "localhost"


class Refused(Exception):
    """A call that the settings don't allow; nothing was sent. Its text is `code: what to do`."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The rules of an installation.

    Args:
        hosts: names and addresses that may be called, with commas between them, `*.example.com` for all below
            a domain; None: whatever the settings' URLs name.
        networks: which may be called though they are not public.
    """

    hosts: str | None = None
    networks: tuple[Network, ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """As the settings have them."""
        return cls(settings.outgoing_hosts, networks_of(settings.outgoing_networks))

    def check_host(self, host: str) -> None:
        """Raises Refused when this host may not be called at all."""
        if self.hosts is not None and not host_fits(host, self.hosts):
            raise Refused(f"{HOST_REFUSED}: {host} is not among RAJADA_OUTGOING_HOSTS")

    def check_address(self, host: str, address: str) -> None:
        """Raises Refused when this address of a host may not be called.

        Args:
            host: as the URL has it, a name or an address.
            address: what it leads to, as the resolver wrote it.
        """
        found = _plain(ip_address(address))
        if any(found.version == network.version and found in network for network in self.networks):
            return
        if found.is_global and not found.is_multicast:
            return
        spelled = _as_address(host)
        if spelled is not None:
            if _ordinary(_plain(spelled)):
                return
        elif host.lower() == _LOCALHOST and found.is_loopback:
            return
        raise Refused(
            f"{ADDRESS_REFUSED}: {host} leads to {address}, which is not public; name its network in "
            "RAJADA_OUTGOING_NETWORKS if it may be called"
        )


def networks_of(text: str | None) -> tuple[Network, ...]:
    """The networks that a setting names; ValueError for what is none. `private` stands for the usual ones."""
    found: list[Network] = []
    for one in (text or "").split(","):
        if one == "private":
            found.extend(ip_network(network) for network in PRIVATE_NETWORKS)
        elif one:
            found.append(ip_network(one))
    return tuple(found)


def _ordinary(address: Address) -> bool:
    """An address of a machine, here or in a private network; not the metadata of a cloud, nor everybody."""
    return address.is_loopback or not (
        address.is_link_local or address.is_multicast or address.is_unspecified or address.is_reserved
    )


def _as_address(host: str) -> Address | None:
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None


def _plain(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, where it stands for one."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    teredo = address.teredo[1] if address.teredo is not None else None
    return address.ipv4_mapped or address.sixtofour or teredo or address
