"""From ranges to tasks: large ranges are split, small ones share a task.

A Python task costs some 60 ms of CPU before its first row. So small ranges are put together until a
task has `rows_min` rows. All of them go into `count_max` tasks, the number of cores if it is known.
A task of one range cannot be parallel, so large ranges are split when more tasks are wanted. Equal
input gives equal tasks.
"""

import heapq
from collections.abc import Sequence

from borzoi.spark.options import Tasks
from borzoi.spark.positions import Range, row_count


def plan_tasks(ranges: Sequence[Range], tasks: Tasks) -> list[list[Range]]:
    """Every row of `ranges` in exactly one task; no task is empty."""
    ranges = [one for one in ranges if one.row_count > 0]
    pieces = split(ranges, tasks.count_min, tasks.rows_max)
    count = -(-row_count(pieces) // tasks.rows_min) if tasks.rows_min else len(pieces)
    if tasks.count_max is not None:
        count = min(count, tasks.count_max)
    return pack(pieces, max(tasks.count_min, count), tasks.rows_max)


def split(ranges: Sequence[Range], count_min: int, rows_max: int | None) -> list[Range]:
    """Pieces of at most `rows_max` rows, at least `count_min` of them where rows allow it.

    One more piece always goes to the range whose pieces are largest. So pieces end up as equal as
    they can be, also when one partition has nearly everything.
    """
    counts = [1 if rows_max is None else -(-one.row_count // rows_max) for one in ranges]
    largest = [(-one.row_count / counts[at], at) for at, one in enumerate(ranges)]
    heapq.heapify(largest)
    missing = count_min - sum(counts)
    while missing > 0 and largest:
        _, at = heapq.heappop(largest)
        if counts[at] == ranges[at].row_count:
            continue  # a row cannot be split
        counts[at] += 1
        missing -= 1
        heapq.heappush(largest, (-ranges[at].row_count / counts[at], at))
    return [piece for at, one in enumerate(ranges) for piece in _cut(one, counts[at])]


def pack(pieces: Sequence[Range], count: int, rows_max: int | None) -> list[list[Range]]:
    """At most `count` tasks, or as many more as `rows_max` needs; the largest pieces first."""
    if len(pieces) <= count:
        return [[piece] for piece in pieces]
    open_tasks: list[tuple[int, int]] = [(0, at) for at in range(count)]  # rows, which task
    found: list[list[Range]] = [[] for _ in range(count)]
    for piece in sorted(pieces, key=lambda one: (-one.row_count, one)):
        rows, at = open_tasks[0]
        if rows_max is not None and rows and rows + piece.row_count > rows_max:
            # The emptiest one has no room, so none has.
            found.append([piece])
            heapq.heappush(open_tasks, (piece.row_count, len(found) - 1))
            continue
        found[at].append(piece)
        heapq.heapreplace(open_tasks, (rows + piece.row_count, at))
    return [sorted(task) for task in found if task]


def _cut(one: Range, count: int) -> list[Range]:
    rows = one.row_count
    return [
        one._replace(
            begin=one.begin + rows * number // count,
            end=one.begin + rows * (number + 1) // count,
        )
        for number in range(count)
    ]
