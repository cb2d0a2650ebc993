"""What is large goes through memory that another process maps, and only what it may."""

from __future__ import annotations

import dataclasses
import gc
import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from nbdist.freight import Address, Shipment, load, pack, reach, ship

MANY = 1 << 18


@pytest.fixture
def array() -> np.ndarray:
    return np.arange(MANY)


@pytest.fixture
def shipment(array: np.ndarray) -> Shipment:
    shipped = ship(pack("x", array))
    assert shipped is not None
    return shipped


def test_another_process_reads_it(shipment: Shipment) -> None:
    code = (
        f"from nbdist.freight import Address, load, reach\nx = load(reach({shipment.address!r}))\n"
        "total = x.sum(); x[:] = 1; print(total, x.sum())"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert said.stdout.split() == [str(MANY * (MANY - 1) // 2), str(MANY)]


def test_readers_have_it_for_themselves(shipment: Shipment, array: np.ndarray) -> None:
    memories = [reach(shipment.address) for _ in range(2)]
    one, other = (load(memory) for memory in memories if memory is not None)
    one[:] = 0
    array[:] = 5
    assert np.array_equal(other, np.arange(MANY))
    assert not one.any()


def test_it_outlives_its_sender_and_then_goes(array: np.ndarray) -> None:
    def files() -> list[str]:
        gc.collect()
        links = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
        return [os.readlink(link) for link in links if os.path.lexists(link)]

    before = files().count("/memfd:nbdist (deleted)")
    shipped = ship(pack("x", array))
    assert shipped is not None
    memory = reach(shipped.address)
    assert memory is not None
    there = load(memory)
    del shipped, memory
    assert np.array_equal(there, array)
    del there
    assert files().count("/memfd:nbdist (deleted)") == before


def test_nobody_can_change_it(shipment: Shipment) -> None:
    path = f"/proc/{shipment.address.pid}/fd/{shipment.address.fd}"
    fd = os.open(path, os.O_RDWR)
    try:
        with pytest.raises(PermissionError):
            os.pwrite(fd, b"x", 0)
        with pytest.raises(PermissionError):
            os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def test_what_is_not_the_shipment_is_not_read(shipment: Shipment, array: np.ndarray) -> None:
    right = shipment.address
    other = ship(pack("x", array))
    assert other is not None
    wrong: list[Address] = [
        dataclasses.replace(right, nonce=bytes(16)),
        dataclasses.replace(right, nbytes=right.nbytes + 1),
        dataclasses.replace(right, fd=10_000),
        dataclasses.replace(right, pid=2**30),
        dataclasses.replace(right, fd=other.address.fd),
    ]
    with tempfile.TemporaryFile() as file:
        file.write(right.nonce + bytes(right.nbytes - 16))
        file.flush()
        wrong.append(dataclasses.replace(right, fd=file.fileno()))  # nobody has sealed it
        assert [address for address in wrong if reach(address) is not None] == []
    assert reach(right) is not None


def test_what_is_small_is_not_shipped() -> None:
    assert ship(pack("x", 3)) is None


def test_where_it_cannot_be_shipped_there_is_another_way(
    array: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*args: object) -> int:
        raise PermissionError("no sealing here")

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr("fcntl.fcntl", forbidden)
    assert ship(pack("x", array)) is None
    assert len(os.listdir("/proc/self/fd")) == before
