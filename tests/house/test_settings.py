"""Settings come from the environment, and a misspelt one says which there are."""

from __future__ import annotations

import pytest

from nbdist.errors import UsageError
from nbdist.settings import Settings


def test_defaults_and_overrides() -> None:
    assert Settings.from_environment({}) == Settings()
    assert Settings.from_environment({"NBDIST_START_TIMEOUT": "5"}).start_timeout == 5.0
    assert Settings.from_environment({"NBDIST_BUCKET_MIB": "1"}).bucket_mib == 1


def test_a_misspelt_name_lists_the_nearest() -> None:
    with pytest.raises(UsageError, match="NBDIST_START_TIMEOUT"):
        Settings.from_environment({"NBDIST_START_TIMOUT": "5"})


def test_a_value_of_the_wrong_kind_is_named() -> None:
    with pytest.raises(UsageError, match=r"NBDIST_BUCKET_MIB='big' is no int"):
        Settings.from_environment({"NBDIST_BUCKET_MIB": "big"})
