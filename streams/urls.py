"""The common rules of all readers of a URL: where user and password end, and which hosts are this machine."""

import re
from collections.abc import Sequence
from ipaddress import ip_address
from typing import NamedTuple

ENCODE = "write %40 for @, %2F for /, %3F for ? and %23 for # in user, password and database"


class StoreAddress(NamedTuple):
    """The address to which a driver connects, from the URL, its options, a service file and the environment. A local
    socket is not a server."""

    servers: Sequence[tuple[str, int]]
    """Host (a name or an address) and port; the port is 0 where a name server has hosts and ports."""
    tls: bool
    """Whether the driver sends no password without TLS."""


def loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def hosts_of(url: str) -> str:
    """The part of a URL between user and path."""
    return re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0].rpartition("@")[2]


def uncertain(url: str) -> bool:
    """Whether it is unclear where user and password end in a server's URL. A driver could mistake a part of the
    password for the host, print it, and look it up at a name server."""
    rest = url.partition("://")[2]
    signs = re.split(r"[/?#]", rest, maxsplit=1)[0].count("@")
    return signs > 1 or rest.count("@") != signs
