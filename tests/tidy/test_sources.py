"""Every module says what it is, has a telling name, and nothing names one particular machine."""

import ast
import re
import subprocess
import sys

from tests.tidy.repository import ROOT, python_files, written_files

BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}

# Put together here, so that this file does not hold what it looks for.
MACHINE_PATHS = ["/" + name + "/" for name in ("work", "root", "home/[a-z]+", "Users")]
REGISTRY_HOSTS = ["py" + "pi[.]org", "python" + "hosted[.]org", "--index" + "-url"]


def test_there_is_something_to_look_at() -> None:
    assert len(python_files()) > 20
    assert ROOT / "pyproject.toml" in written_files()


def test_every_module_opens_with_what_it_is() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in python_files()
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_no_file_has_a_name_that_says_nothing() -> None:
    nameless = [
        str(path.relative_to(ROOT))
        for path in written_files()
        if path.suffix in (".py", ".pyx") and path.stem in BANNED_NAMES
    ]
    assert nameless == []


def test_no_file_names_a_machine_or_a_registry() -> None:
    # A path begins after a space, a quote or the like; "a/work/b" in the middle of one is fine.
    needles = re.compile(
        r"(?:^|(?<=[\s\"'`(=:]))(?:" + "|".join(MACHINE_PATHS) + ")|" + "|".join(REGISTRY_HOSTS),
        re.MULTILINE,
    )
    found = []
    for path in written_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            # Captured bytes: not text, so no path was written into it.
            continue
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in needles.finditer(text)]
    assert found == []


def test_only_one_module_writes_to_the_terminal() -> None:
    """What others say goes through it, and is escaped."""
    clicks = {"echo", "secho", "echo_via_pager"}
    may = {
        "src/borzoi/terminal.py",
        # Numbers, for the program that started them.
        "bench/bare.py",
        "bench/bare_crossing.py",
    }
    found = []
    for path in python_files():
        for node in ast.walk(ast.parse(path.read_text())):
            is_name = isinstance(node, ast.Name) and node.id == "print"
            is_clicks = (
                isinstance(node, ast.Attribute)
                and node.attr in clicks
                and isinstance(node.value, ast.Name)
                and node.value.id == "click"
            )
            if is_name or is_clicks:
                found.append(str(path.relative_to(ROOT)))
    assert set(found) - may == set()


def test_the_needles_find_what_they_should() -> None:
    assert re.search(MACHINE_PATHS[0], "see " + "/wo" + "rk/x")
    assert re.search(REGISTRY_HOSTS[0], "https://py" + "pi.org/simple")


def test_imports_point_down_only() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command as check; check()",
            "--no-cache",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
