"""./borzoi: when it installs, what it runs, and what it says when it cannot.

A stand-in for Python makes the "environments", so nothing is downloaded; it notes every call.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Called as an interpreter, in place of the real one and in place of the environment's.
FAKE_PYTHON = """#!/usr/bin/env bash
case "$1 $2" in
    "-c import sys; sys.exit"*) exec {python} "$@" ;;
    "-c import tomllib"*) echo "needs of ${{@: -1}}" ;;
    "-c "*) echo "lint" >>{calls}; exit 0 ;;
    "-m venv")
        echo venv >>{calls}
        [[ -e {broken} ]] && exit 1
        mkdir -p "${{@: -1}}/bin" "${{@: -1}}/lib/python3.11/site-packages"
        cp "$0" "${{@: -1}}/bin/python" ;;
    "-m pip")
        [[ $3 == install ]] || exit 0
        echo "pip ${{@: -1}}" >>{calls}
        [[ ${{@: -1}} == absent* ]] && exit 1
        [[ ${{@: -1}} == /* && -e {broken}-build ]] && echo "no compiler" && exit 1
        for ((at = 4; at < $#; at++)); do
            [[ ${{!at}} != */clients/* ]] || mkdir -p "${{!at}}"
        done
        bin=$(dirname "$0")
        cp {program} "$bin/borzoi" ;;
    *) echo "$*${{BORZOI_PLAIN_LOOPS:+ plainly}}" >>{calls}; echo "7 passed"; [[ ! -e {broken} ]] ;;
esac
"""
PROGRAM = """#!/usr/bin/env bash
[[ $1 == fail ]] && exit 7
echo "pid $$ in $PWD with $*"
ls /proc/self/fd | wc -l
echo "bytecode to $PYTHONPYCACHEPREFIX ${PYTHONDONTWRITEBYTECODE-for sure}"
"""


INSTALLED_FROM = (
    "pyproject.toml",
    "setup.py",
    "protocol/_messages.pxd",
    "protocol/_loops.pyx",
    "protocol/_seen_ids.pyx",
    "shards/tallies/_meter.pyx",
)


DEBIAN = ("nats-server", "prometheus")
"""What is unpacked from packages of Debian where it is missing."""


class Checkout:
    """A copy of the launcher in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "check out"
        self.root.mkdir()
        shutil.copy(ROOT / "borzoi", self.root / "borzoi")
        for name in INSTALLED_FROM:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text("one")
        self.packages = self.root / "tests/clients/packages.txt"
        self.packages.parent.mkdir(parents=True)
        self.packages.write_text("# package, then what it can do\n")
        self.calls_file = directory / "calls"
        self.broken = directory / "broken"
        program = directory / "program"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        self.python = directory / "fake-python"
        self.python.write_text(
            FAKE_PYTHON.format(
                python=sys.executable, calls=self.calls_file, broken=self.broken, program=program
            )
        )
        self.python.chmod(0o755)
        self.tools = directory / "tools"
        self.tools.mkdir()
        for name in DEBIAN:
            self.add_tool(name, "exit 1")
        self.add_tool("chromium", "exit 1")
        path = f"{self.tools}:{os.environ['PATH']}"
        self.environ = {"PATH": path, "BORZOI_PYTHON": str(self.python)}

    def add_tool(self, name: str, does: str) -> None:
        """Put a program in front of those of this machine."""
        (self.tools / name).write_text(f"#!/usr/bin/env bash\n{does}\n")
        (self.tools / name).chmod(0o755)

    def without(self, name: str) -> None:
        """Take a program away, and every place that has one of this name."""
        (self.tools / name).unlink()
        places = os.environ["PATH"].split(":")
        left = [place for place in places if not (Path(place) / name).exists()]
        self.environ["PATH"] = ":".join([str(self.tools), *left])

    def start(self, *arguments: str, launcher: Path | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [launcher or self.root / "borzoi", *arguments],
            env=self.environ,
            cwd=self.root.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, launcher: Path | None = None) -> tuple[int, str, str]:
        process = self.start(*arguments, launcher=launcher)
        out, err = process.communicate(timeout=30)
        return process.returncode, out.replace(f"pid {process.pid}", "same pid"), err

    def calls(self) -> list[str]:
        return self.calls_file.read_text().splitlines() if self.calls_file.exists() else []


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_the_first_use_installs_and_the_second_does_not(checkout: Checkout) -> None:
    code, out, err = checkout.run("serve", "--fresh", "a b")
    assert code == 0
    assert out.startswith(f"same pid in {checkout.root.parent} with serve --fresh a b\n")
    assert "making a Python environment" in err
    assert checkout.calls()[:2] == ["venv", "pip pip"]
    # It is built while what it needs is fetched, so either may come first.
    assert sorted(checkout.calls()[2:]) == [f"pip {checkout.root}", "pip needs of "]
    again = checkout.run("serve")
    assert again[0] == 0
    assert again[2] == ""
    assert len(checkout.calls()) == 4


def test_the_program_inherits_no_extra_descriptor(checkout: Checkout) -> None:
    first = checkout.run("x")[1].splitlines()[1]
    assert first == checkout.run("x")[1].splitlines()[1]


def test_bytecode_is_kept_in_the_environment(checkout: Checkout) -> None:
    checkout.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    kept = checkout.run("x")[1].splitlines()[2]
    assert kept == f"bytecode to {checkout.root}/.venv/bytecode for sure"


def test_programs_of_the_environment_find_the_bytecode_by_themselves(
    checkout: Checkout, tmp_path: Path
) -> None:
    """A test harness starts .venv/bin/iggy-server itself, and asks for no bytecode."""
    checkout.run("x")
    (written,) = checkout.root.glob(".venv/lib/*/site-packages/*.pth")
    # Beside a real interpreter, which reads such files when it starts.
    environment = tmp_path / "environment"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=60
    )
    (packages,) = environment.glob("lib/python*/site-packages")
    shutil.copy(written, packages)
    said = subprocess.run(
        [environment / "bin/python", "-c", "import sys; print(sys.pycache_prefix)"],
        env={"PYTHONDONTWRITEBYTECODE": "1"},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    assert said == f"{environment}/bytecode\n"
    (packages / "imported.py").write_text("")
    subprocess.run(
        [environment / "bin/python", "-c", "import imported"],
        env={"PYTHONDONTWRITEBYTECODE": "1"},
        check=True,
        timeout=60,
    )
    assert [*environment.glob("bytecode/**/imported.*.pyc")]


@pytest.mark.parametrize("changed", INSTALLED_FROM)
def test_what_the_install_was_made_from_has_changed(checkout: Checkout, changed: str) -> None:
    checkout.run("x")
    (checkout.root / changed).write_text("two")
    checkout.run("x")
    once = [f"pip {checkout.root}", "pip needs of "]
    assert checkout.calls()[:2] == ["venv", "pip pip"]
    assert sorted(checkout.calls()[2:]) == sorted(once * 2)


def test_exit_codes_pass_through(checkout: Checkout) -> None:
    assert checkout.run("fail")[0] == 7


def test_through_a_symlink(checkout: Checkout) -> None:
    link = checkout.root.parent / "link"
    link.symlink_to(checkout.root / "borzoi")
    assert checkout.run("x", launcher=link)[0] == 0
    assert (checkout.root / ".venv/bin/borzoi").exists()


def test_many_starts_at_once_install_once(checkout: Checkout) -> None:
    processes = [checkout.start("x") for _ in range(4)]
    for process in processes:
        process.communicate(timeout=30)
        assert process.returncode == 0
    assert checkout.calls()[:2] == ["venv", "pip pip"]
    assert sorted(checkout.calls()[2:]) == [f"pip {checkout.root}", "pip needs of "]


def test_a_python_that_cannot_make_environments(checkout: Checkout) -> None:
    checkout.broken.touch()
    code, _, err = checkout.run("serve")
    assert code == 1
    assert "python3-venv" in err
    checkout.broken.unlink()
    assert checkout.run("serve")[0] == 0


def test_a_python_that_is_too_old(checkout: Checkout) -> None:
    checkout.python.write_text("#!/bin/sh\nexit 1\n")
    code, _, err = checkout.run("serve")
    assert code == 1
    assert "3.11 or newer" in err


def test_a_machine_without_python(checkout: Checkout, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "env", "dirname", "readlink", "sha256sum", "cut", "mkdir", "flock"):
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    checkout.environ = {"PATH": str(tools)}
    code, _, err = checkout.run("serve")
    assert code == 1
    assert "no Python of 3.11 or newer found" in err


def test_test_with_arguments_is_only_pytest(checkout: Checkout) -> None:
    assert checkout.run("test", "tests/storage", "-q")[0] == 0
    *installed, ran = checkout.calls()[2:]
    assert sorted(installed) == [f"pip {checkout.root}", "pip needs of test"]
    assert ran == "-m pytest tests/storage -q"


def test_clients_are_installed_once_each_in_a_directory_of_its_own(checkout: Checkout) -> None:
    checkout.packages.write_text("# package\nsome==1.0\nabsent==2  headers\nsome==1.1  headers\n")
    code, _, err = checkout.run("test", "x")
    assert code == 0
    *installed_first, ran = checkout.calls()[2:]
    assert ran == "-m pytest x"
    # The clients one after another, beside what is borzoi's own.
    clients = [call for call in installed_first if "==" in call]
    assert clients == ["pip some==1.0", "pip absent==2", "pip some==1.1"]
    own = [call for call in installed_first if "==" not in call]
    assert sorted(own) == [f"pip {checkout.root}", "pip needs of test"]
    assert "absent==2 stays away" in err
    installed = sorted(path.name for path in checkout.root.glob(".venv/clients/*"))
    assert installed == ["some-1.0", "some-1.1"]
    # What was not there is asked for again, and nothing else.
    checkout.run("test", "x")
    assert checkout.calls()[8:] == ["pip absent==2", "-m pytest x"]


APT_GET = """
[[ $* != *update* || $(id -u) == 0 ]] || exit 1
echo "apt-get $*" >>{calls}
[[ $* != *download* || -e {broken} ]] || touch "${{@: -1}}_2_amd64.deb"
[[ ! -e {broken} ]]
"""


@pytest.mark.parametrize("name", DEBIAN)
def test_a_program_of_debian_is_unpacked_once(checkout: Checkout, name: str) -> None:
    apt_get = APT_GET.format(calls=checkout.calls_file, broken=checkout.broken)
    checkout.add_tool("apt-get", apt_get)
    checkout.add_tool("dpkg-deb", 'touch "$3/unpacked"')
    checkout.without(name)
    for _ in range(2):
        assert checkout.run("test", "x")[0] == 0
    downloads = [call for call in checkout.calls() if "download" in call]
    assert downloads == [f"apt-get -qq download {name}"]
    assert (checkout.root / f".venv/{name}/unpacked").exists()


@pytest.mark.parametrize("name", DEBIAN)
def test_a_machine_that_cannot_fetch_one_runs_the_other_tests(
    checkout: Checkout, name: str
) -> None:
    checkout.run("test", "x")
    checkout.add_tool("apt-get", "exit 1")
    checkout.without(name)
    code, _, err = checkout.run("test", "y")
    assert code == 0
    assert f"{name} stays away" in err
    assert checkout.calls()[-1] == "-m pytest y"
    assert not list(checkout.root.glob(".venv/nats-server*"))


@pytest.mark.parametrize(
    ("arguments", "extras", "ran"),
    [
        ("bench targets", "bench", "-m borzoi.bench targets"),
        ("bench spark --rows 9", "bench,spark", "-m borzoi.bench spark --rows 9"),
        ("pipeline to-files a/b", "spark", None),
    ],
)
def test_what_a_command_needs_is_installed_with_it(
    checkout: Checkout, arguments: str, extras: str, ran: str | None
) -> None:
    code, out, _ = checkout.run(*arguments.split())
    assert code == 0
    # Borzoi is built once: a running broker uses what lies there.
    assert checkout.calls().count(f"pip {checkout.root}") == 1
    # It is built while the rest is fetched, so either may come first.
    installed, rest = checkout.calls()[2:4], checkout.calls()[4:]
    assert sorted(installed) == [f"pip {checkout.root}", f"pip needs of {extras}"]
    if ran is None:
        assert rest == []
        assert f"with {arguments}\n" in out
    else:
        assert rest == [ran]


def test_a_build_that_fails_beside_the_rest_is_shown_and_tried_again(checkout: Checkout) -> None:
    unbuildable = Path(f"{checkout.broken}-build")
    unbuildable.touch()
    code, _, err = checkout.run("test", "x")
    assert code == 1
    assert f"no compiler\nborzoi: pip could not install {checkout.root}; see above" in err
    assert "-m pytest x" not in checkout.calls()
    unbuildable.unlink()
    assert checkout.run("test", "x")[0] == 0
    assert checkout.calls()[-1] == "-m pytest x"


@pytest.mark.parametrize("words", ["--help", "serve --help", "bench pp -h", "test --help"])
def test_help_installs_nothing(checkout: Checkout, words: str) -> None:
    code, out, _ = checkout.run(*words.split())
    assert code == 0
    assert "./borzoi serve                 the broker" in out
    assert "Not installed yet: ./borzoi serve" in out
    assert checkout.calls() == []


@pytest.mark.parametrize("words", ["bench --help", "pipeline -h"])
def test_help_of_an_extra_does_not_install_it(checkout: Checkout, words: str) -> None:
    checkout.run("serve")
    installed = [call for call in checkout.calls() if call.startswith("pip")]
    assert checkout.run(*words.split())[0] == 0
    assert [call for call in checkout.calls() if call.startswith("pip")] == installed


def test_the_needs_of_an_extra_are_those_of_the_project() -> None:
    code = re.search(r"-c '(import tomllib.*?)' \"", (ROOT / "borzoi").read_text(), re.DOTALL)
    assert code is not None
    listed = subprocess.run(
        [sys.executable, "-c", code[1], ROOT / "pyproject.toml", "test"],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    ).stdout.splitlines()
    names = {re.split(r"[^\w-]", one)[0] for one in listed}
    assert {"rich", "pyspark", "pytest", "protobuf"} <= names
    assert "borzoi" not in names


@pytest.mark.parametrize("command", ["serve", "bench targets", "pipeline to-files a/b"])
def test_what_the_tests_need_is_enough_for_everything(checkout: Checkout, command: str) -> None:
    checkout.run("test", "x")
    installed = [call for call in checkout.calls() if call.startswith("pip")]
    assert checkout.run(*command.split())[0] == 0
    assert [call for call in checkout.calls() if call.startswith("pip")] == installed


@pytest.mark.parametrize("is_relative", [True, False])
def test_an_environment_at_another_place(checkout: Checkout, is_relative: bool) -> None:
    place = checkout.root.parent / "else where"
    checkout.environ["BORZOI_VENV"] = place.name if is_relative else str(place)
    assert checkout.run("test", "x")[0] == 0
    assert (place / "bin/python").exists()
    assert not (checkout.root / ".venv").exists()


def test_test_alone_is_everything(checkout: Checkout) -> None:
    assert checkout.run("test")[0] == 0
    calls = checkout.calls()[4:]
    calls.remove("-m mypy")  # beside the others, so its place is anywhere behind the first two
    compiled = "-m pytest --collect-only -q"  # beside the others, and before the tests
    assert compiled in calls[:-2]
    calls.remove(compiled)
    *checks, tests, report = calls
    assert checks == ["-m ruff check", "-m ruff format --check", "lint"]
    assert re.fullmatch(r"-m pytest -n \d+ --dist worksteal -rs --cov --cov-report=", tests)
    assert re.fullmatch(r"-m coverage report --fail-under=\d\d", report)


def test_one_failed_check_fails_the_whole_and_the_rest_still_run(checkout: Checkout) -> None:
    checkout.run("test", "x")
    # From here on the stand-in fails every tool.
    checkout.broken.touch()
    code, _, err = checkout.run("test")
    assert code == 1
    assert "failed: ruff check ruff format pytest mypy coverage report" in err


class Matrix:
    """A checkout on a machine that has one of the versions, and a name of another that fails."""

    def __init__(self, checkout: Checkout, directory: Path) -> None:
        self.checkout = checkout
        here = sys.version_info.minor
        self.version = f"3.{here}"
        other = "3.12" if here != 12 else "3.13"
        names = directory / "bin"
        names.mkdir()
        shutil.copy(checkout.python, names / f"python{self.version}")
        (names / f"python{other}").write_text("#!/bin/sh\nexit 127\n")
        (names / f"python{other}").chmod(0o755)
        # Versions of the machine itself would be found, too.
        for tool in ("bash", "env", "dirname", "readlink", "sha256sum", "cut", "mkdir", "flock"):
            (names / tool).symlink_to(shutil.which(tool) or "")
        for tool in ("cat", "cp", "mktemp", "mv", "nproc", "rm", "tail", "tee", "sed"):
            (names / tool).symlink_to(shutil.which(tool) or "")
        checkout.environ = {"PATH": str(names)}


@pytest.fixture
def matrix(checkout: Checkout, tmp_path: Path) -> Matrix:
    return Matrix(checkout, tmp_path)


def test_the_matrix_runs_every_version_there_is(matrix: Matrix) -> None:
    checkout = matrix.checkout
    code, out, _ = checkout.run("test", "--matrix", "tests/storage")
    assert code == 0
    ran = [call for call in checkout.calls() if call.startswith("-m pytest")]
    fast = r"-m pytest -n \d+ --dist worksteal -q -m not slow tests/storage"
    assert re.fullmatch(fast, ran[0])
    assert ran[1:] == [f"{ran[0]} plainly"]
    assert (checkout.root / f".venv-{matrix.version}/bin/python").exists()
    table = out[out.index("Python ") :].splitlines()
    assert f"{matrix.version}     compiled  passed    7 passed" in table
    assert f"{matrix.version}     plain     passed    7 passed" in table
    assert sum("not found" in row for row in table) == 3


def test_the_matrix_uses_the_environment_of_that_version(matrix: Matrix) -> None:
    checkout = matrix.checkout
    checkout.run("test", "x")
    assert checkout.run("test", "--matrix")[0] == 0
    assert [*checkout.root.glob(".venv-*")] == []


def test_the_matrix_fails_if_one_fails(matrix: Matrix) -> None:
    checkout = matrix.checkout
    checkout.run("test", "x")
    checkout.broken.touch()
    code, out, err = checkout.run("test", "--matrix")
    assert code == 1
    assert f"{matrix.version}     compiled  failed    7 passed" in out
    assert f"failed: {matrix.version} compiled {matrix.version} plain" in err


def test_a_matrix_without_versions(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / f"bin/python{matrix.version}").unlink()
    code, _, err = matrix.checkout.run("test", "--matrix")
    assert code == 1
    assert "no Python from 3.11 to 3.14 found" in err


def test_the_matrix_says_what_it_is(matrix: Matrix) -> None:
    code, out, _ = matrix.checkout.run("test", "--matrix", "--help")
    assert code == 0
    assert "--matrix" in out
    assert matrix.checkout.calls() == []


def test_the_real_files_are_executable() -> None:
    for name in ("borzoi", ".ci/run"):
        assert os.access(ROOT / name, os.X_OK)
        subprocess.run(["bash", "-n", ROOT / name], check=True, timeout=10)
