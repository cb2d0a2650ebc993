"""Which device a rank computes on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..gpus import visible_gpus

if TYPE_CHECKING:
    import torch

_LOCAL_RANK = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")


def local_rank() -> int:
    """Return this rank's place among the ranks of its host."""
    for name in _LOCAL_RANK:
        if name in os.environ:
            return int(os.environ[name])
    return 0


def pin() -> None:
    """Leave this process one GPU, chosen by local rank; ranks share GPUs when there are fewer."""
    gpus = visible_gpus()
    if gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[local_rank() % len(gpus)]


def device() -> torch.device:
    """Return the device of this rank: its one GPU, or the CPU."""
    import torch

    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
