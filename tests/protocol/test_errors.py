import pickle

import pytest

from borzoi.protocol import errors
from borzoi.protocol.errors import (
    BrokerError,
    GenericError,
    StreamIdNotFound,
    error_class,
    error_for,
)
from borzoi.protocol.statuses import STATUSES
from tests.protocol.values import GOLDEN


def test_the_table_is_that_of_the_wire() -> None:
    known: dict[int, str] = {}
    for line in (GOLDEN / "statuses.txt").read_text().splitlines():
        if not line.startswith("#"):
            status, name = line.split()
            known[int(status)] = "GenericError" if name == "Error" else name
    assert len(known) == 242
    assert {status: row.name for status, row in STATUSES.items()} == known
    assert {status: type(error_for(status)).__name__ for status in STATUSES} == known


def test_every_error_knows_its_status_and_says_something() -> None:
    for status in STATUSES:
        error = error_for(status)
        assert error.status == status
        assert str(error) == error.says != ""


def test_a_status_always_has_the_same_class() -> None:
    for status, row in STATUSES.items():
        assert error_class(status) is error_class(status) is getattr(errors, row.name)


def test_a_detail_replaces_the_standing_words() -> None:
    assert str(StreamIdNotFound("stream 7")) == "stream 7"
    assert str(StreamIdNotFound()) == "no such stream"


def test_a_status_becomes_its_error() -> None:
    assert type(error_for(1009)) is StreamIdNotFound


@pytest.mark.parametrize("status", [0, 17, 99999])
def test_an_unassigned_status_is_generic(status: int) -> None:
    error = error_for(status)
    assert type(error) is GenericError
    assert str(status) in str(error)
    assert error_class(status) is None


def test_a_status_cannot_be_given_out_twice() -> None:
    with pytest.raises(TypeError, match="StreamIdNotFound"):
        type("StreamIdNotFound", (BrokerError,), {})
    with pytest.raises(TypeError, match="Another"):
        type("Another", (BrokerError,), {})
    assert error_class(1009) is StreamIdNotFound
    assert len({row.name for row in STATUSES.values()}) == len(STATUSES)


def test_a_name_is_described_by_its_own_words() -> None:
    assert errors.CannotDeleteFile.says == "cannot delete file"


def test_errors_without_a_declaration_can_be_pickled() -> None:
    for status in STATUSES:
        error = error_for(status)
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert str(again) == str(error)


def test_a_name_without_a_status_is_no_error() -> None:
    assert not hasattr(errors, "NoSuchError")
