"""What the papers point at is there, and what they list is complete."""

import ast
import re
import runpy
import tomllib
from typing import Final

import pytest

from tests.docs.blocks import papers, without_blocks
from tests.tidy.repository import PACKAGES, ROOT

README_LINES_MAX: Final = 120
FILES: Final = re.compile(
    r"(?<![\w/])(?:" + "|".join((*PACKAGES, "src", "docs", "tests")) + r")/[\w/.-]*\.[a-z]{2,4}\b"
)
FUNCTIONS: Final = re.compile(r"`([\w.]+)` in `([\w/]+\.py)`")
DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
MODULES: Final = re.compile(r"\btests(?:\.[a-z_]+){2,}\b")
LINKS: Final = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([\w-]+))?\)")
ROOMS: Final = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
DRAW: Final = runpy.run_path(str(ROOT / "docs/draw.py"))
SOURCE: Final = (ROOT / "docs/architecture.txt").read_text()
# Histories name files of their time.
OF_TODAY: Final = [paper for paper in papers() if paper.name != "CHANGELOG.md"]


def test_the_pages_name_real_files() -> None:
    named = {
        (str(paper.relative_to(ROOT)), name)
        for paper in OF_TODAY
        for name in FILES.findall(paper.read_text())
    }
    assert len(named) > 100, "the pages have no map of the code"
    assert sorted(row for row in named if not (ROOT / row[1]).exists()) == []


def test_the_pages_name_real_programs() -> None:
    named = {name for paper in OF_TODAY for name in MODULES.findall(paper.read_text())}
    assert len(named) > 20
    missing = [name for name in named if not (ROOT / (name.replace(".", "/") + ".py")).is_file()]
    assert sorted(missing) == []


def test_the_pages_name_real_functions() -> None:
    named = {
        (str(paper.relative_to(ROOT)), *found)
        for paper in OF_TODAY
        for found in FUNCTIONS.findall(re.sub(r"\s+", " ", paper.read_text()))
    }
    assert len(named) > 5
    assert sorted(row for row in named if row[1] not in _defined_in(row[2])) == []


def _defined_in(file: str) -> set[str]:
    """Functions and classes of a module, and Class.method."""
    found: set[str] = set()
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, DEFINITIONS):
            found.add(node.name)
            members = node.body if isinstance(node, ast.ClassDef) else []
            found |= {f"{node.name}.{one.name}" for one in members if isinstance(one, DEFINITIONS)}
    return found


def anchor(heading: str) -> str:
    """As hosts of Markdown make it."""
    kept = re.sub(r"[^\w\s-]", "", heading.strip().lower())
    return re.sub(r"\s", "-", kept)


def test_links_lead_somewhere() -> None:
    broken = []
    for paper in papers():
        for place, heading in LINKS.findall(paper.read_text()):
            target = (paper.parent / place) if place else paper
            if not target.exists():
                broken.append(f"{paper.relative_to(ROOT)}: {place}")
            elif heading:
                prose = without_blocks(target.read_text())
                headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
                if heading not in map(anchor, headings):
                    broken.append(f"{paper.relative_to(ROOT)}: {place}#{heading}")
    assert broken == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached = {ROOT / "README.md"}
    waiting = list(reached)
    while waiting:
        page = waiting.pop()
        for place, _ in LINKS.findall(page.read_text()):
            target = (page.parent / place).resolve()
            if target.suffix == ".md" and target.exists() and target not in reached:
                reached.add(target)
                waiting.append(target)
    assert sorted(set(papers()) - reached) == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES_MAX


def test_every_folder_of_tests_is_explained() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    folders = [path.parent.name for path in (ROOT / "tests").glob("*/__init__.py")]
    assert [name for name in folders if not re.search(rf"`(?:tests/)?{name}`", page)] == []


def test_the_rooms_are_those_of_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = [
        contract["layers"]
        for contract in contracts["contracts"]
        if contract.get("containers") == ["borzoi.shards"]
    ]
    page = (ROOT / "docs/ARCHITECTURE.md").read_text()
    table = page.split("<!-- rooms:")[1].split("\n## ")[0]
    assert ROOMS.findall(table) == layers


def test_the_drawing_is_made_from_its_source() -> None:
    drawn = (ROOT / "docs/architecture.svg").read_text()
    assert DRAW["render"](SOURCE) == drawn, "run docs/draw.py"


@pytest.mark.parametrize(
    "line",
    [
        "box wide room 20 100 10 10 : a title that does not fit",
        "box on-top room 10 10 100 40 : on top",
        "box outside-of-it room 5000 10 100 40 : away",
        "arrow clients middle disk top :",
        "circle 1 2 3",
    ],
)
def test_a_drawing_that_cannot_be_read_is_refused(line: str) -> None:
    with pytest.raises(DRAW["BadDrawing"]):
        DRAW["render"](f"{SOURCE}\n{line}\n")


def test_every_share_is_explained() -> None:
    wiring = (ROOT / "shards/wiring/shard.py").read_text()
    made = re.findall(r'_share\("(\w+)"|_shared\["(\w+)"\]', wiring)
    section = (ROOT / "SECURITY.md").read_text().partition("## Shares")[2].partition("\n## ")[0]
    assert sorted(ROOMS.findall(section)) == sorted(first or second for first, second in made)
