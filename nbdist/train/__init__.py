"""How ranks learn together: the ring, the loop round the user's batches, metrics."""

from .loop import loop as loop
from .mean import mean as mean
from .metrics import log as log

__all__ = ["log", "loop", "mean"]
