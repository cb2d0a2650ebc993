"""A large parcel in memory without a name, which processes of the same user on the same host map."""

from __future__ import annotations

import fcntl
import hmac
import mmap
import os
import stat
from dataclasses import dataclass

from .parcel import NONCE_BYTES, Bytes, Parcel

_LARGE = 1 << 20
"""From how many bytes on a parcel is worth a file."""

_AT_ONCE = 1 << 28


@dataclass(frozen=True, kw_only=True)
class Address:
    """What tells another process where a shipment is; it travels over the signed channel only."""

    pid: int
    fd: int
    nbytes: int
    nonce: bytes


_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL


class Shipment:
    """A parcel written once, for any number of processes; it is gone with the last of them.

    It is sealed: nobody can change or shorten it any more. Whoever maps it gets pages of its own as it
    writes to them, so that memory is spent once for all readers, and again for what each changes.
    """

    def __init__(self, parcel: Parcel) -> None:
        self._fd = os.memfd_create("nbdist", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        nbytes = parcel.nbytes
        self.address = Address(pid=os.getpid(), fd=self._fd, nbytes=nbytes, nonce=parcel.nonce)
        os.ftruncate(self._fd, nbytes)
        for start, piece in parcel.pieces():
            rest = memoryview(piece).cast("B")
            while rest.nbytes:
                done = os.pwrite(self._fd, rest[:_AT_ONCE], start)
                start, rest = start + done, rest[done:]
        fcntl.fcntl(self._fd, fcntl.F_ADD_SEALS, _SEALS)

    def holds(self, parcel: Parcel) -> bool:
        """Tell whether `parcel` is what was shipped."""
        if parcel.nbytes != self.address.nbytes:
            return False
        there = memoryview(mmap.mmap(self._fd, 0, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE))
        _, *pieces = parcel.pieces()  # the first tells one parcel from its equal
        return all(_equal(there[start : start + memoryview(piece).nbytes], piece) for start, piece in pieces)

    def __del__(self) -> None:
        # Not in a forked child, whose descriptors are its own to close.
        if hasattr(self, "address") and self.address.pid == os.getpid():
            os.close(self._fd)


def ship(parcel: Parcel) -> Shipment | None:
    """Put a large parcel where others on this host can map it, if this system can do that."""
    if parcel.nbytes < _LARGE:
        return None
    try:
        return Shipment(parcel)
    except OSError:  # a sandbox that forbids it, say; there is another way
        return None


def reach(address: Address) -> mmap.mmap | None:
    """Map a shipment, writable and for this process alone; return None where it cannot be reached.

    Another host may have a process of that number with a file of that number, so whatever is there has
    to be this user's, sealed, of the right length, and begin with the nonce.
    """
    try:
        fd = os.open(f"/proc/{address.pid}/fd/{address.fd}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_size != address.nbytes:
            return None
        if fcntl.fcntl(fd, fcntl.F_GET_SEALS) & _SEALS != _SEALS:
            return None
        if not hmac.compare_digest(os.pread(fd, NONCE_BYTES, 0), address.nonce):
            return None
        return mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    except OSError:  # a file that cannot be sealed, say
        return None
    finally:
        os.close(fd)


def _equal(here: Bytes, there: Bytes) -> bool:
    # memoryviews compare item by item; bytes of a slice at a time compare as fast as memory reads.
    a, b = memoryview(here).cast("B"), memoryview(there).cast("B")
    return a.nbytes == b.nbytes and all(
        bytes(a[i : i + _SLICE]) == bytes(b[i : i + _SLICE]) for i in range(0, a.nbytes, _SLICE)
    )


_SLICE = 1 << 18
