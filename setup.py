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
        depends=[f"{FOLDER}_messages.pxd", f"{FOLDER}_log.pxd"],
        # Built once and run on many kinds of machines: nothing that only this one has.
        extra_compile_args=["-O3"],
        optional=True,
    )


setup(ext_modules=[compiled(name) for name in ("_client", "_log", "_requests", "_seen_ids")])
