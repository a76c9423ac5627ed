"""A public class name stands for one thing in each top folder."""

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.tidy.repository import PACKAGES, ROOT, python_files


def test_a_class_name_is_taken_once_per_top_folder() -> None:
    found = {
        f"{package}: {name}": places
        for package in PACKAGES
        for name, places in classes_by_name(
            path for path in python_files() if path.is_relative_to(ROOT / package)
        ).items()
        if len(places) > 1
    }
    assert found == {}


def test_two_classes_of_one_name_are_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class Place: ...\nclass _Own: ...\n")
    (tmp_path / "two.py").write_text("class Other:\n    class Place: ...\nclass _Own: ...\n")
    found = classes_by_name(sorted(tmp_path.glob("*.py")))
    assert {name: len(places) for name, places in found.items()} == {"Place": 2, "Other": 1}


def classes_by_name(paths: Iterable[Path]) -> dict[str, list[str]]:
    """The files of each public class. Compiled twins are no Python files, so they do not count."""
    found = defaultdict(list)
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.name)
    return found
