import pytest

from borzoi.protocol.errors import InvalidIdentifier
from borzoi.shards.web_forms.bodies import PollQuery
from borzoi.shards.web_forms.failures import Failure
from borzoi.shards.web_forms.paths import identifier, read_query, segments_of, u32


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("0", 0),
        ("7", 7),
        ("007", 7),
        ("4294967295", 4294967295),
        ("4294967296", "4294967296"),
        ("0" * 5000 + "1", 1),
        ("-1", "-1"),
        ("1.0", "1.0"),
        ("\u0663", "\u0663"),
        ("name", "name"),
    ],
)
def test_what_reads_as_a_number_is_an_id(text: str, meant: int | str) -> None:
    assert identifier(text) == meant


@pytest.mark.parametrize("text", ["", "x" * 256, "ö" * 128, "9" * 300])
def test_names_of_impossible_length(text: str) -> None:
    with pytest.raises(InvalidIdentifier):
        identifier(text)


def test_a_path_is_cut_before_it_is_decoded() -> None:
    assert segments_of("/streams/a%2Fb/%C3%B6") == ("streams", "a/b", "ö")
    with pytest.raises(Failure):
        segments_of("/streams/%FF")


def test_numbers_and_queries_that_are_none() -> None:
    with pytest.raises(Failure) as failure:
        u32("x", "partition_id")
    assert failure.value.status == 400
    for text in (
        "count=-1",
        "count=4294967296",
        "value=18446744073709551616",
        "kind=best",
        "a=%FF",
    ):
        with pytest.raises(Failure) as failure:
            read_query(text, PollQuery)
        assert failure.value.status == 400
    with pytest.raises(Failure):
        read_query("&".join(f"a{number}=1" for number in range(65)), PollQuery)
    assert read_query("consumer_id=7&value=18446744073709551615", PollQuery).value == 2**64 - 1
