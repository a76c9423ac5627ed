"""What `borzoi.client` offers is found, although nothing of it is imported beforehand."""

import pytest

from borzoi import client


def test_every_public_name_has_a_home() -> None:
    assert set(client.HOMES) == set(client.__all__)
    for name in client.__all__:
        getattr(client, name)


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Borzoi'"):
        client.Borzoi  # noqa: B018 - asking for it is the test
