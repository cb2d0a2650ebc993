"""Hosts to measure and test with: network namespaces of this machine, joined by a bridge."""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import shutil
import subprocess
from pathlib import Path

_NAME = re.compile(r"nbdist-(\d+)-\d+-\w+")
_CLONE_NEWNET = 0x40000000
_serial = itertools.count()


def why_not() -> str:
    """Say what this machine lacks to make hosts; empty where it lacks nothing."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need `ip` (package iproute2)"
    return ""


class Hosts:
    """Network namespaces, each with an interface eth0, 10.77.0.(i+1)/24 and fd77::(i+1)/64; close them."""

    def __init__(
        self, count: int, rate: str | None = None, families: tuple[int, ...] = (4, 6), wires: int = 1
    ) -> None:
        """Make `count` hosts whose links carry at most `rate`, as tc spells it.

        With two `wires` each has an interface eth1 as well, 10.78.0.(i+1)/24 and fd78::(i+1)/64.
        """
        _remove_stale()
        prefix = f"nbdist-{os.getpid()}-{next(_serial)}"
        self.names = [f"{prefix}-{number}" for number in range(count)]
        self._families = families
        self._switch = f"{prefix}-switch"
        try:
            self._make(rate, wires)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove everything."""
        for name in [*self.names, self._switch]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def addresses(self, host: int, wire: int = 0) -> list[str]:
        """List the addresses of a host on a wire."""
        found = {4: f"10.{77 + wire}.0.{host + 1}", 6: f"fd{77 + wire}::{host + 1}"}
        return [found[family] for family in self._families]

    def cut(self, host: int) -> None:
        """Pull the plugs of a host: nothing reaches it any more, and nobody is told."""
        _sh(f"ip -n {self._switch} link set p{host}w0 down")

    def forget_wire(self, host: int, wire: int) -> None:
        """Unplug one wire of a host, which its own interface shows."""
        _sh(f"ip -n {self.names[host]} link del eth{wire}")

    def _make(self, rate: str | None, wires: int) -> None:
        lines = [f"ip netns add {self._switch}"]
        for wire in range(wires):
            lines.append(f"ip -n {self._switch} link add b{wire} type bridge")
            lines.append(f"ip -n {self._switch} link set b{wire} up")
        for number, name in enumerate(self.names):
            lines.append(f"ip netns add {name}")
            # Addresses are unique by construction; to find that out would take IPv6 two seconds.
            setting = "/proc/sys/net/ipv6/conf/default"
            wanted = "accept_dad=0" if 6 in self._families else "disable_ipv6=1"
            key, _, value = wanted.partition("=")
            lines.append(f"ip netns exec {name} sh -c 'echo {value} > {setting}/{key}'")
            lines.append(f"ip -n {name} link set lo up")
            for wire in range(wires):
                port, end = f"p{number}w{wire}", f"eth{wire}"
                lines.append(f"ip -n {self._switch} link add {port} type veth peer name {end} netns {name}")
                lines.append(f"ip -n {self._switch} link set {port} master b{wire} up")
                for address in self.addresses(number, wire):
                    tail = "/64 nodad" if ":" in address else "/24"
                    lines.append(f"ip -n {name} address add {address}{tail} dev {end}")
                lines.append(f"ip -n {name} link set {end} up")
                if rate is not None:
                    shape = f"tbf rate {rate} burst 256kb latency 50ms"
                    lines.append(f"tc -n {name} qdisc add dev {end} root {shape}")
        _sh("\n".join(lines))


def enter(name: str) -> None:
    """Move this process to a host; its threads must all be still to come."""
    descriptor = os.open(f"/run/netns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        libc = ctypes.CDLL(None, use_errno=True)  # os.setns came with Python 3.12
        if libc.setns(descriptor, _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"entering network namespace {name}")
    finally:
        os.close(descriptor)


def _remove_stale() -> None:
    folder = Path("/run/netns")
    for name in os.listdir(folder) if folder.exists() else []:
        match = _NAME.fullmatch(name)
        if match is not None and not Path("/proc", match[1]).exists():
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _sh(script: str) -> None:
    done = subprocess.run(["sh", "-ec", script], capture_output=True, text=True, timeout=30, check=False)
    if done.returncode != 0:
        raise OSError(f"making hosts: {done.stderr.strip()}")
