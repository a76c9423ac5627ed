"""The tables of docs/ARCHITECTURE.md that say which files a request passes.

    python -m tests.docs.paths          walks again, and writes the tables

A table stands between `<!-- path:NAME -->` and `<!-- /path -->`. Its rows are what
tests/path_walk.py sees on a real broker: files in the order of their first call, the first
sentence of each file, and the functions that were called.
"""

import ast
import re
from collections.abc import Mapping
from typing import Final

from tests.path_walk import REQUESTS, Walk, walks
from tests.tidy.repository import ROOT

PAGE: Final = ROOT / "docs/ARCHITECTURE.md"
TABLE: Final = re.compile(r"<!-- path:(\w+) -->\n(.*?)<!-- /path -->", re.DOTALL)
HEAD: Final = "| File | What it is | Functions |\n|---|---|---|\n"


def table_of(walk: Walk) -> str:
    """The table of one way."""
    return HEAD + "".join(_row(walk, file) for file in walk.files)


def _row(walk: Walk, file: str) -> str:
    # What is defined inside of a function belongs to it; __enter__ and the like say nothing.
    names = dict.fromkeys(
        step.function.partition(".<")[0]
        for step in walk.steps
        if step.file == file and not step.function.endswith("__")
    )
    functions = ", ".join(f"`{name}`" for name in names)
    return f"| `{file}` | {_first_sentence(file)} | {functions} |\n"


def _first_sentence(file: str) -> str:
    text = ast.get_docstring(ast.parse((ROOT / file).read_text())) or ""
    first = re.split(r"(?<=[.])\s", " ".join(text.split()), maxsplit=1)[0]
    return first.rstrip(".").replace("|", "\\|")


def tables_in(page: str) -> dict[str, str]:
    """The tables as the page has them, by name."""
    return {found[1]: found[2] for found in TABLE.finditer(page)}


def with_tables(page: str, found: Mapping[str, Walk]) -> str:
    """The page with the tables of these ways."""
    return TABLE.sub(
        lambda old: f"<!-- path:{old[1]} -->\n{table_of(found[old[1]])}<!-- /path -->", page
    )


def main() -> None:
    """Write the tables."""
    PAGE.write_text(with_tables(PAGE.read_text(), walks(list(REQUESTS))))


if __name__ == "__main__":
    main()
