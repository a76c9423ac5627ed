"""What is made to stay is not looked at, and is freed all the same."""

import gc
import weakref

from borzoi.shards.host.collector import made_to_stay


class Kept:
    """Something that may be part of a cycle."""

    other: object = None


def test_what_is_made_meanwhile_is_frozen() -> None:
    gc.collect()
    try:
        with made_to_stay():
            assert not gc.isenabled()
            kept = [Kept() for _ in range(100)]
        assert gc.isenabled()
        assert not {id(one) for one in kept} & {id(one) for one in gc.get_objects()}
        alive = weakref.ref(kept[0])
        kept.clear()
        assert alive() is None
    finally:
        gc.unfreeze()


def test_an_error_switches_it_on_again() -> None:
    try:
        with made_to_stay():
            raise OSError("no recovery")
    except OSError:
        assert gc.isenabled()
    finally:
        gc.unfreeze()
