"""How often a line about one thing is due, and how many things are remembered."""

from borzoi.shards.loop.rarely import Rarely


def test_one_line_per_key_and_interval() -> None:
    rarely = Rarely(10.0)
    assert rarely.is_due("a", 0.0)
    assert not rarely.is_due("a", 9.9)
    assert rarely.is_due("b", 9.9)
    assert rarely.is_due("a", 10.0)
    assert not rarely.is_due("a", 19.9)


def test_the_bound_on_keys() -> None:
    """Many new keys are no way around the interval, and old ones make room."""
    rarely = Rarely(10.0, keys_max=3)
    assert [rarely.is_due(key, float(key)) for key in range(5)] == [True] * 3 + [False] * 2
    assert rarely.is_due(0, 10.0)
    assert rarely.is_due(9, 11.5)
    assert not rarely.is_due(10, 11.5)
