"""What a setting's value must look like: addresses, secrets, hosts and networks as they are read.

The layer of settings: it imports nothing else of ours. Each function takes what the environment has and gives
what `settings.Settings` keeps; ValueError tells what is wrong, without showing the value.
"""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import Final
from urllib.parse import urlsplit


def web_address(value: object) -> object:
    """An http(s) URL without a login in it; blank means unset. ValueError tells what is wrong with it."""
    if not isinstance(value, str):
        return value
    url = value.strip()
    if not url:
        return None
    try:
        parts, port = urlsplit(url), urlsplit(url).port
    except ValueError:  # its text would show a piece of the URL, perhaps of a password
        parts, port = urlsplit(""), 0
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError("it must be like http://engine:8080/turns") from None
    if parts.username or parts.password:
        raise ValueError("it must not hold a login: give the secret as a token")
    if parts.fragment or not url.isascii() or any(letter <= " " for letter in url):
        raise ValueError("it holds characters that a URL must write as %XX, or a part after #")
    return url


PRIVATE_NETWORKS: Final = (
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "fc00::/7",
    "::1/128",
)
"""What `private` stands for in RAJADA_OUTGOING_NETWORKS: not link-local ones, where clouds keep secrets."""


def hosts(value: object) -> object:
    """Hosts with commas between them, as they are compared; blank means unset."""
    if not isinstance(value, str):
        return value
    hosts = [host.strip().lower().rstrip(".").strip("[]") for host in value.split(",") if host.strip()]
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise ValueError("it must hold names like engine.example.com or *.example.com, or addresses")
    return ",".join(hosts) or None


def networks(value: object) -> object:
    """Networks with commas between them; blank means unset."""
    if not isinstance(value, str):
        return value
    networks = [network.strip().lower() for network in value.split(",") if network.strip()]
    for network in networks:
        try:
            if network != "private":
                ip_network(network)
        except ValueError:
            raise ValueError("it must hold networks like 10.0.0.0/8, or the word private") from None
    return ",".join(networks) or None


def host_fits(host: str, rules: str) -> bool:
    """Whether a host is among those that `hosts` took, as RAJADA_OUTGOING_HOSTS has them."""
    host = host.lower().rstrip(".").strip("[]")
    return any(
        host.endswith(rule[1:]) if rule.startswith("*.") else host == rule for rule in rules.split(",")
    )


_HOST: Final = re.compile(r"(\*\.)?[a-z0-9_.-]{1,253}|[0-9a-f:.]{2,45}")


def token(value: object) -> object:
    """A secret as it may stand in a header; blank means unset."""
    if not isinstance(value, str):
        return value
    token = value.strip()
    if not token.isascii() or any(letter <= " " or letter == "\x7f" for letter in token):
        raise ValueError("it holds blanks or characters that no header may have")
    return token or None


def secret_keys(value: object) -> object:
    """Keys of `rajada whatsapp key`, with commas between them; blank means unset."""
    if not isinstance(value, str):
        return value
    keys = [key.strip() for key in value.split(",") if key.strip()]
    if not all(_SECRET_KEY.fullmatch(key) for key in keys):
        raise ValueError("it must hold keys as `rajada whatsapp key` makes them, with commas between them")
    return ",".join(keys) or None


_SECRET_KEY: Final = re.compile(r"[A-Za-z0-9_-]{43}=")
"""32 bytes in base64, the characters of URLs."""
