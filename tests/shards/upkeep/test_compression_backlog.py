"""Which segment is compressed next, and who waits for long: values in, values out."""

from borzoi.router.placement import pack_namespace
from borzoi.router.target import Target
from borzoi.shards.upkeep.compression_backlog import (
    LAG_S,
    WARN_AGAIN_S,
    Backlog,
    WaitingSegments,
    place_of,
)
from borzoi.storage.segment import SealedSegment
from tests.shards.owner import TARGET

SEGMENTS = [SealedSegment(first, 10, 1000, 1, 2) for first in (0, 10, 20)]
FIRST, SECOND, THIRD = SEGMENTS


def test_the_oldest_first_and_what_failed_last() -> None:
    backlog = Backlog()
    assert backlog.next_of(TARGET, SEGMENTS) is FIRST
    assert backlog.failed(place_of(TARGET, FIRST)) == 1
    assert backlog.next_of(TARGET, SEGMENTS) is SECOND
    backlog.failed(place_of(TARGET, SECOND))
    backlog.failed(place_of(TARGET, THIRD))
    assert backlog.next_of(TARGET, SEGMENTS) is None, "all failed, and none was looked at again"
    backlog.look_again()
    assert backlog.next_of(TARGET, SEGMENTS) is FIRST
    assert backlog.failed(place_of(TARGET, FIRST)) == 2
    assert backlog.next_of(TARGET, SEGMENTS) is SECOND
    backlog.look_again()
    assert backlog.next_of(TARGET, SEGMENTS) is SECOND, "it has failed less often"
    backlog.forget(place_of(TARGET, FIRST))
    assert backlog.next_of(TARGET, SEGMENTS) is FIRST


def test_another_life_of_a_partition_has_nothing_to_do_with_it() -> None:
    backlog = Backlog()
    backlog.leave_plain(place_of(TARGET, FIRST))
    backlog.failed(place_of(TARGET, SECOND))
    assert backlog.wanted(TARGET, SEGMENTS) == [SECOND, THIRD]
    purged = TARGET._replace(birth=TARGET.birth + 1)
    assert backlog.wanted(purged, SEGMENTS) == SEGMENTS
    assert backlog.next_of(purged, SEGMENTS[1:]) is SECOND


def test_what_is_remembered_is_bounded() -> None:
    backlog = Backlog(places_max=2)
    for segment in SEGMENTS:
        backlog.leave_plain(place_of(TARGET, segment))
        backlog.failed(place_of(TARGET, segment))
    assert backlog.left_plain == 1
    assert backlog.next_of(TARGET, SEGMENTS) is FIRST, "forgotten, so it is tried again"


def test_a_segment_waits_from_the_first_look_that_saw_it() -> None:
    backlog = Backlog()
    assert backlog.measure(TARGET, SEGMENTS[:2], 100.0) == WaitingSegments(TARGET, 2, 0.0)
    assert backlog.measure(TARGET, SEGMENTS[1:], 150.0) == WaitingSegments(TARGET, 2, 50.0)
    assert backlog.measure(TARGET, SEGMENTS[2:], 200.0).waited_s == 0, "those of then are done"
    assert backlog.measure(TARGET, SEGMENTS[2:], 260.0).waited_s == 60
    assert backlog.measure(TARGET, [], 270.0) == WaitingSegments(TARGET, 0, 0.0)
    assert backlog.measure(TARGET, SEGMENTS[2:], 280.0).waited_s == 0
    backlog.forget_ended(set())
    assert backlog.measure(TARGET, SEGMENTS[2:], 300.0).waited_s == 0


def test_one_warning_for_all_and_not_too_often() -> None:
    backlog = Backlog()
    worst = Target(pack_namespace(1, 2, 3), 5, 0)
    late = [
        WaitingSegments(TARGET, 2, LAG_S),
        WaitingSegments(worst, 7, LAG_S + 1),
        WaitingSegments(TARGET, 4, 0.0),
    ]
    assert backlog.warning([WaitingSegments(TARGET, 9, LAG_S - 1)], 0.0) is None
    said = backlog.warning(late, 1.0)
    assert said is not None
    assert "stream 1, topic 2, partition 3 has 7 sealed segments that wait" in said
    assert "6 wait in other partitions" in said
    assert backlog.warning(late, WARN_AGAIN_S) is None
    assert backlog.warning(late, WARN_AGAIN_S + 1.0) is not None
    assert backlog.warning([], WARN_AGAIN_S + 2.0) is None
    assert backlog.warning(late, WARN_AGAIN_S + 3.0) is not None, "it had caught up in between"
