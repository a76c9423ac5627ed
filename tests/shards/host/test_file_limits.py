"""How descriptors are shared between files and connections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.shards.host.file_limits import OPEN_FILES_MAX, OPEN_FILES_MIN, OWN_FILES, share
from borzoi.shards.settings.schema import Limits


@given(st.integers(OWN_FILES + 2 * OPEN_FILES_MIN, 10_000_000))
def test_no_shard_is_promised_what_another_has(granted: int) -> None:
    shares = share(granted)
    assert OPEN_FILES_MIN <= shares.open_files <= OPEN_FILES_MAX
    assert shares.connections >= 1
    assert shares.open_files + shares.connections + OWN_FILES <= granted


@given(st.integers(0, OWN_FILES + 2 * OPEN_FILES_MIN))
def test_with_very_few_both_have_to_try(granted: int) -> None:
    assert share(granted).open_files >= OPEN_FILES_MIN
    assert share(granted).connections >= 1


@pytest.mark.parametrize("granted", [20_000, 65_536, 1_048_576])
def test_usual_grants_are_enough_for_the_default(granted: int) -> None:
    assert share(granted).connections >= Limits().connections_max
