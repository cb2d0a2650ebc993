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


@pytest.mark.parametrize("text", ["big", "0", "-1", "1.5", "nan", ""])
def test_a_value_of_no_use_is_named(text: str) -> None:
    with pytest.raises(UsageError, match=rf"NBDIST_BUCKET_MIB='{text}' cannot be used; .* above 0"):
        Settings.from_environment({"NBDIST_BUCKET_MIB": text})


def test_a_time_out_may_be_none() -> None:
    assert Settings.from_environment({"NBDIST_COLLECTIVE_TIMEOUT": "0"}).collective_timeout == 0.0
    with pytest.raises(UsageError, match="a number from 0 up"):
        Settings.from_environment({"NBDIST_COLLECTIVE_TIMEOUT": "inf"})
