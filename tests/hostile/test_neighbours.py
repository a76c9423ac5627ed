"""Users that behave are served beside users that do not. `neighbours.py` measures at length."""

import pytest

from tests.hostile.neighbours import run


@pytest.mark.slow
def test_honest_users_are_served_beside_hostile_ones() -> None:
    """Every answer that an honest user gets is right, or the run raises."""
    said: list[str] = []
    figures = run(2.0, 12, said.append)
    assert all(one.rounds for one in figures)
    assert len(said) == 3
