"""Failed writes by what was written and what the kernel said."""

import errno

import pytest

from borzoi.protocol.errors import CannotSyncFile
from borzoi.storage.write_faults import FaultCount, WriteFaults, Written


def made_of(error: OSError) -> CannotSyncFile:
    with pytest.raises(CannotSyncFile) as raised:
        raise CannotSyncFile("x") from error
    return raised.value


def test_every_figure_is_there_before_the_first_failure() -> None:
    faults = WriteFaults(Written.SYNC, Written.OFFSETS)
    assert len(faults.counts()) == 2 * 4
    assert not any(one.times for one in faults.counts())


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (OSError(errno.EIO, "broken"), "EIO"),
        (made_of(OSError(errno.ENOSPC, "full")), "ENOSPC"),
        (made_of(OSError(errno.EACCES, "no")), "other"),
        (OSError("without a number"), "other"),
        (CannotSyncFile("by itself"), "other"),
    ],
)
def test_errors_by_name(error: Exception, name: str) -> None:
    faults = WriteFaults(Written.SYNC)
    faults.note(Written.SYNC, error)
    faults.note(Written.SYNC, error)
    assert [one for one in faults.counts() if one.times] == [FaultCount("sync", name, 2)]
