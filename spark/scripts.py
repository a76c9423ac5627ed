"""Small programs that stand in front of others, in the user's cache directory.

A script is written once and found again by its text; several processes may write the same one at
the same time.
"""

import hashlib
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

EXECUTABLE: Final = stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH
# Spark puts its zip file first on PYTHONPATH, and Python keeps no bytecode of a zip file. Every new
# process compiles it, which takes three times as long as all of its imports otherwise.
PYTHON: Final = """#!/bin/sh
# Python with the PySpark that is installed, instead of the one in Spark's zip file.
kept=
set -f
IFS=:
for place in $PYTHONPATH; do
    case $place in
        */pyspark.zip | */py4j-*-src.zip) ;;
        *) kept=$kept${{kept:+:}}$place ;;
    esac
done
PYTHONPATH=$kept exec "{python}" "$@"
"""


def installed_pyspark(python: str, environ: Mapping[str, str]) -> Path:
    """A program that is this Python, for workers of a Spark that came with its packages."""
    script = PYTHON.format(python=python)
    # One for each Python, so that two of them do not write the same file in turns.
    name = hashlib.sha256(script.encode()).hexdigest()[:16]
    return write_script(cache_directory(environ) / f"python-{name}", script)


def write_script(target: Path, text: str) -> Path:
    """Writes an executable script in one step, also while other processes do the same."""
    if target.is_file() and target.read_text() == text and os.access(target, os.X_OK):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False) as new:
        new.write(text)
    os.chmod(new.name, EXECUTABLE)
    os.replace(new.name, target)
    return target


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Returns the directory for the scripts, by the XDG rules."""
    cache = environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(cache) / "borzoi"
