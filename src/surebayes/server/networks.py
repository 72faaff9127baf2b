"""Networks of clients: the allow list of the mail listeners, and the proxies that authenticate visitors."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from surebayes.errors import BadConfig

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
UNIX = "unix"
"""The entry of a list that stands for clients of Unix sockets."""


@dataclass(frozen=True, slots=True)
class Networks:
    """A list of networks, IPv4 and IPv6, and optionally the Unix sockets.

    Examples
    --------
    >>> office = Networks.parse("192.0.2.0/24, 2001:db8::7")
    >>> ("192.0.2.9", 4711) in office, ("2001:db8::8", 4711, 0, 0) in office, ("::ffff:192.0.2.9", 1) in office
    (True, False, True)
    """

    networks: tuple[Network, ...] = ()
    unix: bool = False

    @classmethod
    def parse(cls, text: str, name: str = "allow") -> Networks:
        """Parse addresses and networks, separated by commas or blanks; error messages mention the setting `name`."""
        words = [word for word in re.split(r"[,\s]+", text) if word]
        return cls(tuple(_network(word, name) for word in words if word != UNIX), UNIX in words)

    def __contains__(self, peer: object) -> bool:
        """Return whether the peer of a connection is in one of the networks."""
        if not isinstance(peer, tuple) or not peer:
            return self.unix
        address = address_of(str(peer[0]))
        return address is not None and any(_contains(network, address) for network in self.networks)

    def __bool__(self) -> bool:
        return self.unix or bool(self.networks)


def _network(word: str, name: str) -> Network:
    try:
        return ipaddress.ip_network(word)
    except ValueError:
        pass
    try:
        wider = ipaddress.ip_network(word, strict=False)
    except ValueError:
        example = "such as 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32"
        raise BadConfig(f"{name} must list addresses and networks, {example}. Got {word[:100]!r}.") from None
    address = word.partition("/")[0]
    raise BadConfig(
        f"{name}: {word!r} is neither a network nor an address. Write {wider} for the network, or {address} for the "
        "address."
    )


@lru_cache(1000)
def address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address of a peer, without its zone; an IPv4-mapped IPv6 address becomes an IPv4 address.

    Examples
    --------
    >>> address_of("::ffff:192.0.2.9"), address_of("fe80::1%eth0"), address_of("localhost")
    (IPv4Address('192.0.2.9'), IPv6Address('fe80::1'), None)
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _contains(network: Network, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return address.version == network.version and address in network


_RESERVED = ("authorization", "cookie", "deliver-to", "host", "origin", "password", "x-surebayes-user")
"""Header fields with another meaning for this server."""


@dataclass(frozen=True, slots=True)
class SignOn:
    """Sign-on by a proxy: the header field with the user's name, and the trusted proxies.

    Examples
    --------
    >>> SignOn.parse("X-Remote-User: 192.0.2.1, unix").header
    'x-remote-user'
    """

    header: str
    proxies: Networks

    @classmethod
    def parse(cls, text: str) -> SignOn:
        """Parse ``HEADER: NETWORKS``; raise BadConfig for an invalid text."""
        header, colon, rest = text.partition(":")
        header = header.strip().lower()
        proxies = Networks.parse(rest, "sign_on") if colon else Networks()
        if not re.fullmatch(r"[a-z0-9-]{1,64}", header) or not proxies:
            example = "such as 'X-Remote-User: 192.0.2.1'"
            raise BadConfig(f"sign_on must be a header field and the addresses of proxies, {example}. Got {text!r}.")
        if header in _RESERVED:
            raise BadConfig(f"sign_on can't use the field {header}, which has another meaning. Use a different field.")
        return cls(header, proxies)

    def name_in(self, peer: object, values: Sequence[str]) -> str | None:
        """Return the visitor's name in a request; None if it has no name or doesn't come from a trusted proxy.

        Raises
        ------
        ValueError
            If a proxy sent the field several times, because one of them may come from the visitor.
        """
        if peer not in self.proxies or not values:
            return None
        if len(values) > 1:
            raise ValueError(f"The request has {len(values)} fields {self.header}. The proxy must set exactly one.")
        return values[0].strip() or None
