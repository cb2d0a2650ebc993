"""Groups over several hosts, which are network namespaces of this machine."""

from __future__ import annotations

import ipaddress
import os
import socket
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist

import nbdist.comm as comm
from nbdist.comm.hosts import choose_places, host_identity, number_hosts
from nbdist.errors import GroupAborted, GroupError, UsageError

from .ranks import Raised, Ranks, spawn

COMBINATIONS = {"2x2": [0, 0, 1, 1], "4x1": [0, 1, 2, 3], "mixed": [0, 1, 1, 0, 1]}


def work_together(rank: int, size: int) -> None:
    """Use the group of all ranks, and subgroups within and across hosts."""
    tensor = torch.full((100_000,), float(rank))
    dist.all_reduce(tensor)
    assert (tensor == sum(range(size))).all()
    for members in ([0, size - 1], [0, 1], list(range(size - 1, -1, -1))):
        group = dist.new_group(members)
        if rank in members:
            parts: list[object] = [None] * len(members)
            dist.all_gather_object(parts, rank, group=group)
            assert parts == sorted(members)
            dist.destroy_process_group(group)
    dist.barrier()
    listening = [
        each for each in psutil.Process().net_connections("tcp") if each.status == psutil.CONN_LISTEN
    ]
    assert not listening, "a door was left open"


@pytest.mark.parametrize("shape", COMBINATIONS)
def test_ranks_on_hosts_work_together(network, shape):
    places = COMBINATIONS[shape]
    hosts = network(max(places) + 1)
    spawn(len(places), work_together, hosts=[hosts.names[place] for place in places], timeout=60)


@pytest.mark.parametrize("family", [4, 6])
def test_one_family_of_addresses_is_enough(network, family):
    hosts = network(2, families=(family,))
    spawn(2, work_together, hosts=hosts.names)


def init(rank: int, size: int, method: str, environment: dict[str, str]) -> list[str]:
    os.environ.update(environment, RANK=str(rank), WORLD_SIZE=str(size))
    dist.init_process_group("nbdist", init_method=method)
    dist.barrier()
    return peers()


def peers() -> list[str]:
    """List the addresses with which this process has TCP connections."""
    return sorted(
        {
            link.raddr.ip.removeprefix("::ffff:")
            for link in psutil.Process().net_connections("tcp")
            if link.raddr
        }
    )


@pytest.mark.parametrize("family", [4, 6])
def test_a_script_meets_through_the_master(network, family):
    hosts = network(2, families=(family,))
    environment = {"MASTER_ADDR": hosts.addresses(0)[0], "MASTER_PORT": "29400"}
    spawn(2, init, "env://", environment, form=False, hosts=hosts.names)


@pytest.mark.parametrize(
    ("setting", "wire"),
    [("eth1", 1), ("10.78.0.0/24", 1), ("10.77.0.0/24", 0), ("fd78::/64", 1), ("10.78.0.99/24", 1)],
)
def test_the_interface_is_chosen_by_name_or_network(network, tmp_path, setting, wire):
    hosts = network(2, wires=2)
    environment = {"NBDIST_INTERFACE": setting}
    method = f"file://{tmp_path}/store?rank={{}}&world_size=2"
    results = spawn(2, init_by_file, method, environment, form=False, hosts=hosts.names)
    for rank, found in enumerate(results):
        assert found, "no connection at all"
        assert set(found) <= set(hosts.addresses(1 - rank, wire))


def init_by_file(rank: int, size: int, method: str, environment: dict[str, str]) -> list[str]:
    return init(rank, size, method.format(rank), environment)


def test_the_route_to_the_master_decides_otherwise(network):
    hosts = network(2, wires=2)
    environment = {"MASTER_ADDR": hosts.addresses(0, wire=1)[0], "MASTER_PORT": "29400"}
    results = spawn(2, init, "env://", environment, form=False, hosts=hosts.names)
    for rank, found in enumerate(results):
        assert hosts.addresses(1 - rank, wire=1)[0] in found
        assert not set(found) & {*hosts.addresses(0), *hosts.addresses(1)}


def test_an_interface_that_is_not_there_is_told_to_all(network):
    hosts = network(2)
    environment = {"MASTER_ADDR": hosts.addresses(0)[0], "MASTER_PORT": "29400", "NBDIST_INTERFACE": "ib0"}
    with Ranks(2, init, "env://", environment, form=False, hosts=hosts.names) as ranks:
        for result in ranks.results():
            assert isinstance(result, Raised)
            assert "NBDIST_INTERFACE='ib0'" in str(result.error)
            assert "eth0 10.77.0." in str(result.error)


def look_elsewhere(rank: int, size: int, folder: str) -> None:
    os.environ.update(NBDIST_INTERFACE=f"eth{rank}", NBDIST_START_TIMEOUT="3")
    init(rank, size, f"file://{folder}/store?rank={rank}&world_size=2", {})


def test_hosts_without_a_common_network_say_what_was_tried(network, tmp_path):
    hosts = network(2, wires=2, families=(4,))
    hosts.forget_wire(1, 0)
    with Ranks(2, look_elsewhere, str(tmp_path), form=False, hosts=hosts.names) as ranks:
        results = ranks.results()
    messages = {str(result.error) for result in results}
    assert len(messages) == 1, messages
    (message,) = messages
    assert "rank 1 cannot reach rank 0 (10.77.0.1 port" in message
    assert "NBDIST_INTERFACE" in message
    assert all(isinstance(result.error, GroupError) for result in results)


def wait_for_ever(rank: int, size: int, mark: str) -> None:
    dist.barrier()
    Path(mark, str(rank)).touch()
    dist.all_reduce(torch.ones(10)) if rank == 0 else dist.recv(torch.ones(10), 0)


def test_a_host_that_vanishes_is_known(network, tmp_path):
    hosts = network(2)
    with Ranks(3, wait_for_ever, str(tmp_path), hosts=[hosts.names[i] for i in (0, 0, 1)]) as ranks:
        while len(list(tmp_path.iterdir())) < 3:
            assert all(process.is_alive() for process in ranks.processes)
        hosts.cut(1)
        for result in ranks.results():
            assert isinstance(result.error, GroupAborted), result.text


def meet(rank: int, size: int, path: str) -> None:
    """Form generations as the notebook does, with its one round more where there are several hosts."""
    store = dist.FileStore(path, size)

    def swap(topic: str, value: bytes) -> list[bytes]:
        store.set(f"{topic}/{rank}", value)
        return [store.get(f"{topic}/{peer}") for peer in range(size)]

    for generation in range(3):
        endpoints = swap(f"endpoint{generation}", comm.open_endpoint())
        assert len(set(swap(f"host{generation}", comm.host_identity().encode()))) == 2
        listeners = swap(f"listener{generation}", comm.listen())
        comm.form_world(endpoints, rank, b"secret", generation, listeners)
        work_together(rank, size)
        comm.leave_world()


def test_generations_of_a_notebook_follow_one_another(network, tmp_path):
    hosts = network(2)
    places = [hosts.names[place] for place in (0, 1, 1)]
    spawn(3, meet, str(tmp_path / "store"), form=False, hosts=places, timeout=60)


def open_sockets(rank: int, size: int) -> list[object]:
    dist.barrier()
    return psutil.Process().net_connections("inet")


def test_one_host_needs_no_socket():
    assert spawn(2, open_sockets) == [[], []]


def test_hosts_are_numbered_by_their_lowest_rank():
    assert number_hosts(["b", "a", "b", "c", "a"]) == [0, 1, 0, 2, 1]
    assert host_identity() == host_identity()


def test_places_are_chosen():
    (loop,) = choose_places("127.0.0.1", None)
    assert loop.interface == "lo"
    assert loop.holds(ipaddress.ip_address("127.9.9.9"))
    assert all(not place.address.is_loopback for place in choose_places("", "127.0.0.1"))
    with pytest.raises(UsageError, match=f"of host {socket.gethostname()}; it has lo 127.0.0.1/8"):
        choose_places("10.99.98.0/24", None)


def test_of_hundreds_of_addresses_some_are_announced(monkeypatch):
    entry = type(psutil.net_if_addrs()["lo"][0])
    many = [entry(socket.AF_INET, f"10.1.{i}.1", "255.255.255.0", None, None) for i in range(200)]
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: {"lo": many})
    for setting in ("lo", "10.0.0.0/8", ""):
        assert len(choose_places(setting, None)) == 32
