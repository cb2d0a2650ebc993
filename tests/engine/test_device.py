"""A rank gets one GPU by its place on the host."""

from __future__ import annotations

import os

import pytest

from nbdist.cluster.cluster import default_size
from nbdist.engine import device
from nbdist.gpus import visible_gpus


@pytest.mark.parametrize(
    ("listed", "local_rank", "pinned"),
    [("3,5", 0, "3"), ("3,5", 1, "5"), ("3,5", 2, "3"), (" 0 , 1", 1, "1"), ("", 0, ""), ("-1", 0, "-1")],
)
def test_pin(monkeypatch: pytest.MonkeyPatch, listed: str, local_rank: int, pinned: str) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_RANK", str(local_rank))
    device.pin()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == pinned


def test_default_size_is_one_rank_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5")
    assert (len(visible_gpus()), default_size()) == (6, 6)


def test_default_size_without_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    for cores, size in ((1, 1), (2, 2), (64, 4)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, cores=cores: set(range(cores)))
        assert default_size() == size


def test_local_rank_of_every_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"):
        monkeypatch.delenv(name, raising=False)
    assert device.local_rank() == 0
    monkeypatch.setenv("SLURM_LOCALID", "2")
    assert device.local_rank() == 2
