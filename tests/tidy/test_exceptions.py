"""What departs from the rules says why, and tests get bounds passed in instead of changing them."""

import re
from collections.abc import Callable
from typing import Final

import pytest

from tests.tidy.repository import ROOT, python_files

IGNORED: Final = re.compile(r"# type: ignore(?!\[[\w,-]+\] +# \w)")
NOT_CHECKED: Final = re.compile(r"# (ruff: )?noqa(?!: [A-Z]+\d+(, [A-Z]+\d+)* - \w)")
PATCHED: Final = re.compile(
    r"""setattr\([^"']*["'](\w+\.)*[A-Z][A-Z0-9_]+["']|^\s+(?!self)\w+\.[A-Z][A-Z0-9_]+ = """
)
"""A constant of a module that a test sets."""


def without_reason(line: str) -> bool:
    return bool(IGNORED.search(line) or NOT_CHECKED.search(line))


def test_every_exception_has_its_reason() -> None:
    assert found(without_reason) == []


def test_no_test_sets_a_constant() -> None:
    assert [place for place in found(PATCHED.search) if place.startswith("tests/")] == []


@pytest.mark.parametrize(
    "line", ["f()  # type: ignore", "f()  # type: ignore[misc]", "f()  # noqa", "f()  # noqa: B023"]
)
def test_a_bare_exception_is_found(line: str) -> None:
    assert without_reason(line)


@pytest.mark.parametrize(
    "line", ["f()  # type: ignore[misc]  # it is theirs", "f()  # noqa: B023, E501 - at once"]
)
def test_a_reason_is_enough(line: str) -> None:
    assert not without_reason(line)


@pytest.mark.parametrize(
    "line",
    [
        'monkeypatch.setattr(module, "SIZE_MAX", 3)',
        'monkeypatch.setattr("borzoi.module.SIZE_MAX", 3)',
        "    module.SIZE_MAX = 3",
    ],
)
def test_a_constant_that_is_set_is_found(line: str) -> None:
    assert PATCHED.search(line)


def found(is_wrong: Callable[[str], object]) -> list[str]:
    """The lines of this repository that are wrong, but for the examples above."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in python_files()
        if path.name != "test_exceptions.py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if is_wrong(line)
    ]
