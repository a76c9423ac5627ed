"""What the tidiness tests look at: the files of this repository that people wrote."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("protocol", "router", "storage", "shards", "client", "bench", "spark", "cluster")
LEFT_OUT = frozenset({".git", ".venv", "__pycache__", "build", "local_data"})


def python_files() -> list[Path]:
    top = sorted((ROOT / "src/borzoi").glob("*.py"))
    return top + [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def written_files() -> list[Path]:
    """Files that are, or would be, committed. Without git: everything that no tool made."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=30,
    )
    if listing.returncode == 0:
        paths = [ROOT / name for name in listing.stdout.decode().split("\0") if name]
    else:
        paths = [path for path in ROOT.rglob("*") if LEFT_OUT.isdisjoint(path.parts)]
    return sorted(path for path in paths if path.is_file() and not path.is_symlink())
