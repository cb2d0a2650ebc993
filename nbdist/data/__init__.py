"""What each rank reads: exact shards, loaders that reshuffle, small image sets."""

from .bounds import bounds as bounds
from .images import digits as digits
from .images import fashion_mnist as fashion_mnist
from .shard import Shard as Shard
from .shard import cut as cut
from .stream import Stream as Stream

__all__ = ["Shard", "Stream", "bounds", "cut", "digits", "fashion_mnist"]
