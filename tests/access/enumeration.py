"""Whether the time of a failed login tells that the name exists.

    python -m tests.access.enumeration --names 1000

Names that exist and names that do not take turns, so that whatever else the machine does meets
both alike; what is compared are the medians, as a ratio. The few logins of the test suite, with
other tests beside them, are compared by the CPU that the broker used for the cheapest of each kind.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from borzoi.protocol.commands.sessions import LoginUser
from borzoi.protocol.commands.users import CreateUser
from borzoi.protocol.errors import InvalidCredentials
from tests.access.brute_force import PATIENT
from tests.broker import BrokerProcess
from tests.wire import Wire

# One more and the pair of name and address has to wait.
TRIES_PER_NAME: Final = 4


def create_users(broker: BrokerProcess, count: int) -> list[str]:
    """So many users, by name."""
    wire = Wire(broker)
    names = [f"known-{number:04}" for number in range(count)]
    for name in names:
        wire.ask(CreateUser(name, "password"))
    wire.close()
    return names


def ratio_of_times(
    broker: BrokerProcess,
    known: Sequence[str],
    tries_per_name: int,
    typical: Callable[[list[float]], float] = statistics.median,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """The time of a failed login under names that do not exist, over that of `known` ones."""
    wire = Wire(broker, login=False, source="127.0.0.7")
    times: dict[bool, list[float]] = {True: [], False: []}
    for number in range(tries_per_name):
        for name in known:
            unknown = name.replace("known", "other")
            # Neither is always the first of the two.
            order = (name, unknown) if number % 2 else (unknown, name)
            for one in order:
                began = clock()
                status = wire.status(LoginUser(one, "not the password"))
                times[one == name].append(clock() - began)
                assert status == InvalidCredentials.status
    wire.close()
    return typical(times[False]) / typical(times[True])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--names", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        # All from one address: it must not be slowed down for it.
        free = {"IGGY_LIMITS_LOGIN_FAILURES_FREE_PER_ADDRESS": str(10 * options.names)}
        broker = BrokerProcess(Path(directory) / "data", {**PATIENT, **free})
        broker.start()
        try:
            ratio = ratio_of_times(broker, create_users(broker, options.names), 1)
            print(f"{options.names} names of each kind: unknown over known is {ratio:.3f}")
        finally:
            broker.close()
    return 0 if 0.95 < ratio < 1.05 else 1


if __name__ == "__main__":
    sys.exit(main())
