"""The dotenv file's syntax."""

from borzoi.shards.config.environment import parse_dotenv


def test_assignments() -> None:
    text = r"""
# a comment
IGGY_A=plain text # and a comment
export IGGY_B = "with \"quotes\"\n" # more
IGGY_C='literal \n'
IGGY_D=
IGGY_E=a=b#c
IGGY_F=#
"""
    assert parse_dotenv(text) == (
        {
            "IGGY_A": "plain text",
            "IGGY_B": 'with "quotes"\n',
            "IGGY_C": r"literal \n",
            "IGGY_D": "",
            "IGGY_E": "a=b#c",
            "IGGY_F": "",
        },
        [],
    )


def test_lines_that_are_none_are_numbered() -> None:
    variables, bad = parse_dotenv("nonsense\nA=1\n2B=3\nC=\"open\nD='open\n")
    assert variables == {"A": "1"}
    assert bad == [1, 3, 4, 5]
