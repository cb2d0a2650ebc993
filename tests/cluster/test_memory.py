"""What does not fit into memory is refused before it is tried."""

from __future__ import annotations

import pytest

from nbdist.cluster import memory
from nbdist.errors import UsageError


def test_objects_larger_than_what_is_free_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_free", lambda: 8 * 10**9)
    memory.refuse_too_large("x", 8 * 10**9)
    with pytest.raises(UsageError, match=r"^x: 12.0 GB more memory .* and 8.0 GB are free; make"):
        memory.refuse_too_large("x", 12 * 10**9)
