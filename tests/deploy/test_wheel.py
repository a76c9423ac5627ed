"""The source archive, the wheel built of it, and a broker installed from that in an empty place.

Compiled without -O3, which takes most of the time and changes nothing that is looked at here.
"""

import http.client
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Final

import pytest

from tests.broker import FREE_PORTS, wait_for
from tests.tidy.repository import ROOT, written_files

pytestmark = pytest.mark.slow

TIMEOUT_S: Final = 300
NO_PACKAGES: Final = ("No matching distribution", "ConnectionError", "Temporary failure")
QUICK_CC: Final = """#!/bin/sh
for word; do shift; [ "$word" = -O3 ] && word=-O0; set -- "$@" "$word"; done
exec cc "$@"
"""
BUILD: Final = "import sys, setuptools.build_meta as b; getattr(b, sys.argv[1])(sys.argv[2])"


def run(*words: object, cwd: Path, **environ: str) -> str:
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env={**clean(), **environ},
        capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def clean() -> dict[str, str]:
    """Without what makes a checkout, or a setting, count."""
    left_out = ("IGGY_", "BORZOI_", "PYTHONPATH", "COV_", "PYTEST_")
    return {name: text for name, text in os.environ.items() if not name.startswith(left_out)}


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pyproject.toml says that a build needs."""
    place = tmp_path_factory.mktemp("tools")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "--no-compile", "--target", str(place), "setuptools>=77", "Cython>=3.1"],
        capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    if any(words in done.stderr for words in NO_PACKAGES):
        pytest.skip("needs setuptools and Cython from PyPI: the wheel is not built")
    assert done.returncode == 0, done.stderr
    return place


@pytest.fixture(scope="module")
def wheel(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made of the source archive, which is made of the files that are committed."""
    place = tmp_path_factory.mktemp("built")
    source = place / "source"
    source.mkdir()
    for path in (*written_files(), *(ROOT / "src/borzoi").iterdir()):
        copied = source / path.relative_to(ROOT)
        copied.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or path.is_file():
            shutil.copy2(path, copied, follow_symlinks=False)
    python = (sys.executable, "-c", BUILD)
    run(*python, "build_sdist", place, cwd=source, PYTHONPATH=str(tools))
    (archive,) = place.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(place / "unpacked", filter="tar")
    (unpacked,) = (place / "unpacked").iterdir()
    (place / "cc").write_text(QUICK_CC)
    (place / "cc").chmod(0o755)
    environ = {"PYTHONPATH": str(tools), "CC": str(place / "cc")}
    run(*python, "build_wheel", place, cwd=unpacked, **environ)
    (made,) = place.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel, and the packages that it needs."""
    place = tmp_path_factory.mktemp("installed") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", place, cwd=wheel.parent)
    python = place / "bin/python"
    run(
        sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index",
        "--disable-pip-version-check", "--no-compile", wheel, cwd=wheel.parent,
    )  # fmt: skip
    (packages,) = (place / "lib").glob("python*/site-packages")
    # Those of the tests, without borzoi: a path in a .pth file has no .pth files of its own read.
    ours = Path(pytest.__file__).parents[1]
    (packages / "needed.pth").write_text(f"{ours}\n")
    where = run(python, "-c", "import borzoi; print(*borzoi.__path__)", cwd=wheel.parent)
    assert where.strip() == str(packages / "borzoi")
    return place / "bin"


def test_a_wheel_holds_all_but_the_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    sources = {f"borzoi/{path.relative_to(ROOT)}" for path in written_files()}
    folders = ("protocol", "router", "storage", "shards", "client", "bench", "spark", "liftbridge")
    wanted = {
        name for name in sources if name.split("/")[1] in folders and name.endswith((".py", ".js"))
    }
    assert sorted(wanted - set(names)) == []
    assert "borzoi/console/index.html" in names
    assert "borzoi/py.typed" in names
    assert not any(name.startswith(("tests/", "borzoi/tests/")) for name in names)
    compiled = {name.split("/")[-1].split(".")[0] for name in names if name.endswith(".so")}
    assert compiled == {path.stem for path in written_files() if path.suffix == ".pyx"}


def test_a_broker_from_a_wheel_serves_with_compiled_loops(installed: Path, tmp_path: Path) -> None:
    said = tmp_path / "said"
    settings = {**clean(), **FREE_PORTS, "IGGY_SYSTEM_PATH": str(tmp_path / "data")}
    with said.open("wb") as output:
        broker = subprocess.Popen(
            [installed / "borzoi", "serve"], cwd=tmp_path, env=settings, stdout=output,
            stderr=output, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        wait_for(lambda: "Try this next" in said.read_text() or broker.poll() is not None)
        lines = said.read_text()
        assert "compiled loops" in lines
        doors = dict(line.split(maxsplit=1) for line in lines.splitlines() if line.startswith("  "))
        server = f"iggy://iggy:iggy@{doors['TCP']}"
        run(installed / "borzoi", "stream", "create", "s", cwd=tmp_path, BORZOI_SERVER=server)
        run(installed / "borzoi", "topic", "create", "s", "t", "1", cwd=tmp_path,
            BORZOI_SERVER=server)  # fmt: skip
        run(installed / "borzoi", "message", "send", "s", "t", "hi", cwd=tmp_path,
            BORZOI_SERVER=server)  # fmt: skip
        shown = run(installed / "borzoi", "tail", "s/t", cwd=tmp_path, BORZOI_SERVER=server)
        assert shown.endswith("  hi\n")
        asking = http.client.HTTPConnection(doors["HTTP"].removeprefix("http://"), timeout=60)
        asking.request("GET", "/ui/")
        assert b"<title>" in asking.getresponse().read()
        asking.close()
    finally:
        broker.terminate()
        assert broker.wait(60) == 0


def test_the_bench_of_a_wheel_is_there(installed: Path, tmp_path: Path) -> None:
    assert "pinned-producer" in run(installed / "borzoi", "bench", "--help", cwd=tmp_path)
    assert "borzoi, version" in run(installed / "borzoi", "--version", cwd=tmp_path)
