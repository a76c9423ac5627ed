"""The bell of a shard."""

import os

from borzoi.router.wake import Wake
from tests.readable import is_readable


def is_ringing(wake: Wake) -> bool:
    return is_readable(wake.fd)


def test_rings_until_cleared_however_often_it_was_rung() -> None:
    wake = Wake.create()
    assert not is_ringing(wake)
    assert not wake.clear()
    wake.notify()
    wake.notify()
    assert is_ringing(wake)
    assert wake.clear()
    assert not is_ringing(wake)
    assert not wake.clear()
    wake.close()


def test_a_full_counter_is_still_a_ring() -> None:
    wake = Wake.create()
    os.eventfd_write(wake.fd, (1 << 64) - 2)
    wake.notify()
    assert wake.clear()
    wake.close()


def test_is_not_inherited() -> None:
    wake = Wake.create()
    assert not os.get_inheritable(wake.fd)
    wake.close()
