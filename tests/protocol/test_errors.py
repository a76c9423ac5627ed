import pytest

from borzoi.protocol.errors import BY_STATUS, BrokerError, GenericError, StreamIdNotFound, error_for
from tests.protocol.values import GOLDEN


def test_the_table_is_that_of_the_wire() -> None:
    known: dict[int, str] = {}
    for line in (GOLDEN / "statuses.txt").read_text().splitlines():
        if not line.startswith("#"):
            status, name = line.split()
            known[int(status)] = "GenericError" if name == "Error" else name
    assert len(known) == 223
    assert {status: error.__name__ for status, error in BY_STATUS.items()} == known


def test_every_error_knows_its_status_and_says_something() -> None:
    for status, error in BY_STATUS.items():
        assert error.status == status
        assert str(error()) == error.says != ""


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


def test_a_status_cannot_be_given_out_twice() -> None:
    with pytest.raises(TypeError, match="StreamIdNotFound"):
        type("Another", (BrokerError,), {}, status=1009)
    assert BY_STATUS[1009] is StreamIdNotFound


def test_a_name_is_described_by_its_own_words() -> None:
    assert BY_STATUS[10008].says == "cannot delete file"
