"""Compiles the loops over messages, if it can; everything else is in pyproject.toml.

Without a C compiler, Python's headers or Cython the installation succeeds all the same, and the
same loops run in plain Python (protocol/plain_*.py).
"""

from setuptools import Extension, setup

FOLDER = "src/borzoi/protocol/"


def compiled(name: str) -> Extension:
    """The extension module of one .pyx file; a build that fails leaves it out."""
    return Extension(
        f"borzoi.protocol.{name}",
        sources=[f"{FOLDER}{name}.pyx"],
        depends=[f"{FOLDER}{name}.pxd" for name in ("_edges", "_log", "_messages")],
        # Built once and run on many kinds of machines: nothing that only this one has.
        extra_compile_args=["-O3"],
        optional=True,
    )


NAMES = ("_arriving", "_client", "_leaving", "_log", "_requests", "_seen_ids", "_websocket")

setup(ext_modules=[compiled(name) for name in NAMES])
