"""What the reader watches: figures of the ranks as curves, a picture and a table."""

from __future__ import annotations

from .feed import Feed as Feed
from .view import LiveView as LiveView
