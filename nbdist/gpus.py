"""Which GPUs there are, without opening one."""

from __future__ import annotations

import os
from pathlib import Path

_NVIDIA = Path("/proc/driver/nvidia/gpus")


def visible_gpus() -> list[str]:
    """List the GPUs this process may use, as CUDA_VISIBLE_DEVICES names them."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is not None:
        return [name.strip() for name in listed.split(",") if name.strip() not in ("", "-1")]
    return [str(i) for i in range(len(list(_NVIDIA.iterdir())))] if _NVIDIA.is_dir() else []
