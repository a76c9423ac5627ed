"""K1 in short: `python -m tests.cluster.simulate` is the long version."""

import pytest

from tests.cluster.mutations import MUTATIONS, Mutation, mutated
from tests.cluster.simulate import problems_of, simulated

HISTORIES = 1000


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_twice_or_reordered() -> None:
    ended = [simulated(seed) for seed in range(HISTORIES)]
    assert {seed: one.problems for seed, one in enumerate(ended) if one.problems} == {}
    # What there was to lose.
    assert sum(one.stored for one in ended) > 10 * HISTORIES
    assert sum(one.refused for one in ended) > HISTORIES // 2
    assert sum(one.openings for one in ended) > 4 * HISTORIES
    assert sum(one.fenced for one in ended) > HISTORIES // 4


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_missing_rule_is_noticed(mutation: Mutation) -> None:
    assert problems_of(mutation.seed, mutated(mutation)) != []
    assert simulated(mutation.seed).problems == []
