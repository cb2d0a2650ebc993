"""Which ranks share a host, and at which addresses a host is reached."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from ..errors import UsageError

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
SocketAddress = tuple[socket.AddressFamily, tuple[object, ...]]

_MOST = 32  # a node that hosts many containers has addresses by the hundred, and each would be called


@dataclass(frozen=True)
class Place:
    """An address of this host."""

    interface: str
    address: IPAddress
    length: int
    """How many leading bits the addresses of its network share."""

    @property
    def scope(self) -> int:
        """Which interface a link-local address belongs to; 0 for addresses that need none."""
        return socket.if_nametoindex(self.interface) if needs_scope(self.address) else 0

    def holds(self, address: IPAddress) -> bool:
        """Whether an address is in this one's network."""
        network = ipaddress.ip_network(f"{self.address}/{self.length}", strict=False)
        return address in network

    def __str__(self) -> str:
        return f"{self.interface} {self.address}/{self.length}"


def host_identity() -> str:
    """Name the host of this process: processes with one name can map each other's memory.

    A container is a host of its own, unless it shares what the mapping goes through.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    spaces = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "pid", "user")]
    text = "/".join([boot, *spaces, str(os.geteuid())])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def number_hosts(identities: Sequence[str]) -> list[int]:
    """Number the hosts of ranks in the order of their lowest ranks."""
    order = {name: number for number, name in enumerate(dict.fromkeys(identities))}
    return [order[name] for name in identities]


def choose_places(setting: str, reach: str | None) -> list[Place]:
    """Choose where other hosts may call this one.

    That is where `setting` (an interface, an address or a network) says; else the address from which the
    host `reach` is reached; else every address that is not this host's alone.

    Raises:
        UsageError: this host has no such interface or address.
    """
    places = _own_places()
    if setting:
        chosen = [place for place in places if _is_meant(setting, place)]
        if not chosen:
            have = "; ".join(map(str, places)) or "nothing"
            raise UsageError(
                f"NBDIST_INTERFACE={setting!r} is no interface, address or network of host "
                f"{socket.gethostname()}; it has {have}."
            )
        return chosen[:_MOST]
    up = {name for name, state in psutil.net_if_stats().items() if state.isup}
    open_ones = [place for place in places if place.interface in up and not place.address.is_loopback]
    routed = set(_sources(reach)) if reach else set()
    open_ones.sort(key=lambda place: needs_scope(place.address))
    return ([place for place in open_ones if place.address in routed] or open_ones)[:_MOST]


def callable_at(
    announced: Iterable[tuple[str, int]],
) -> list[SocketAddress]:
    """Turn what a peer announced into socket addresses, likely ones first."""
    own = _own_places()
    likely: list[tuple[int, socket.AddressFamily, tuple[object, ...]]] = []
    for text, port in announced:
        address = ipaddress.ip_address(text)
        if isinstance(address, ipaddress.IPv4Address):
            near = any(place.holds(address) for place in own if place.address.version == 4)
            likely.append((0 if near else 1, socket.AF_INET, (text, port)))
        elif needs_scope(address):
            # The peer's name for its interface means nothing here: it may be behind any of ours.
            scopes = sorted({place.scope for place in own if needs_scope(place.address)})
            likely += [(2, socket.AF_INET6, (text, port, 0, scope)) for scope in scopes]
        else:
            near = any(place.holds(address) for place in own if place.address.version == 6)
            likely.append((0 if near else 1, socket.AF_INET6, (text, port, 0, 0)))
    likely.sort(key=lambda each: each[0])
    return [(family, address) for _, family, address in likely]


def needs_scope(address: IPAddress) -> bool:
    """Whether an address means nothing without the interface it is on."""
    return address.version == 6 and address.is_link_local


def _own_places() -> list[Place]:
    places = []
    for name, entries in psutil.net_if_addrs().items():
        for entry in entries:
            if entry.family not in (socket.AF_INET, socket.AF_INET6):
                continue
            address = ipaddress.ip_address(entry.address.partition("%")[0])
            mask = entry.netmask or ("255.255.255.255" if address.version == 4 else "ffff:" * 7 + "ffff")
            places.append(Place(name, address, int(ipaddress.ip_address(mask)).bit_count()))
    return places


def _is_meant(setting: str, place: Place) -> bool:
    try:
        return place.address in ipaddress.ip_network(setting, strict=False)
    except ValueError:
        return place.interface == setting


def _sources(host: str) -> list[IPAddress]:
    """List the addresses from which this host would call `host`."""
    try:
        found = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)
    except OSError:
        return []
    sources = []
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(address)  # of a datagram socket: nothing is sent
                sources.append(ipaddress.ip_address(probe.getsockname()[0].partition("%")[0]))
        except OSError:
            continue
    return sources
