"""Many sequences of commands against a broker and its model: `python -m tests.crash.model_run`."""

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.broker import BrokerProcess
from tests.crash.model_group_rules import GroupRules
from tests.crash.model_machine import (
    ENDS,
    SETTINGS,
    MetadataRules,
    OffsetRules,
    RestartRules,
)
from tests.crash.model_user_rules import UserRules

STEPS: Final = 40
SEQUENCES_BETWEEN_ENDS: Final = 5


class BrokerMachine(MetadataRules, OffsetRules, UserRules, GroupRules, RestartRules):
    """All rules together."""

    def teardown(self) -> None:
        if self.wires:
            self.compare_everything(0)
            # Chance may choose none of the ends in a short run: each has its turn here.
            turn, rest = divmod(self.counts["sequences"], SEQUENCES_BETWEEN_ENDS)
            if rest == 0:
                self.restart_now(ENDS[turn % len(ENDS)], turn % 2, 0)
        super().teardown()


def start_broker(data: Path) -> BrokerProcess:
    """The broker that the sequences of a run are driven through."""
    broker = BrokerProcess(data, SETTINGS)
    broker.start()
    BrokerMachine.broker = broker
    BrokerMachine.counts = Counter()
    return broker


def run(
    data: Path, sequences: int, number: int, *, steps: int = STEPS, shrink: bool
) -> Counter[str]:
    """What was done in so many sequences from this seed.

    AssertionError with the commands of the one in which they do not agree.
    """
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    broker = start_broker(data)
    try:
        run_state_machine_as_test(
            seed(number)(BrokerMachine),
            settings=settings(
                max_examples=sequences,
                stateful_step_count=steps,
                deadline=None,
                database=None,
                phases=phases,
                suppress_health_check=list(HealthCheck),
                print_blob=False,
            ),
        )
    except BaseException as error:
        error.add_note(f"seed {number}\n{broker.output()[-4000:]}")
        raise
    finally:
        broker.close()
    return BrokerMachine.counts


def main() -> None:
    parser = argparse.ArgumentParser(description="random commands against a broker and a model")
    parser.add_argument("--sequences", type=int, default=100)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="borzoi-model-") as directory:
        data = Path(directory, "data")
        counts = run(data, arguments.sequences, arguments.seed, steps=arguments.steps, shrink=True)
    print("they agree:", ", ".join(f"{count} {name}" for name, count in counts.items()))


if __name__ == "__main__":
    main()
