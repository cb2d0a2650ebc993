"""Which device a rank computes on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_LOCAL_RANK = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
_NVIDIA_GPUS = Path("/proc/driver/nvidia/gpus")


def local_rank() -> int:
    """Return this rank's place among the ranks of its host."""
    for name in _LOCAL_RANK:
        if name in os.environ:
            return int(os.environ[name])
    return 0


def visible_gpus() -> list[str]:
    """List the GPUs this process may use, as CUDA_VISIBLE_DEVICES names them, without opening one."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is not None:
        return [name.strip() for name in listed.split(",") if name.strip() and name.strip() != "-1"]
    if not _NVIDIA_GPUS.is_dir():
        return []
    return [str(i) for i in range(len(list(_NVIDIA_GPUS.iterdir())))]


def pin() -> None:
    """Leave this process one GPU, chosen by local rank; ranks share GPUs when there are fewer."""
    gpus = visible_gpus()
    if gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[local_rank() % len(gpus)]


def device() -> torch.device:
    """Return the device of this rank: its one GPU, or the CPU."""
    import torch

    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
