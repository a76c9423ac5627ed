"""Compiles the loops over messages, if it can; everything else is in pyproject.toml.

Without a C compiler, Python's headers or Cython the installation succeeds all the same, and the
same loops run in plain Python (protocol/plain_*.py, shards/tallies/plain_meter.py).
"""

from setuptools import Extension, setup

PROTOCOL = "borzoi.protocol"


def compiled(package: str, name: str) -> Extension:
    """The extension module of one .pyx file; a build that fails leaves it out."""
    loops = f"src/{PROTOCOL.replace('.', '/')}"
    return Extension(
        f"{package}.{name}",
        sources=[f"src/{package.replace('.', '/')}/{name}.pyx"],
        depends=[f"{loops}/{name}.pxd" for name in ("_edges", "_log", "_messages")],
        # Built once and run on many kinds of machines: nothing that only this one has. Without
        # what a debugger reads: it takes a quarter of the time, and is most of the size.
        extra_compile_args=["-O3", "-g0"],
        optional=True,
    )


NAMES = (
    "_arriving",
    "_client",
    "_heads",
    "_leaving",
    "_log",
    "_requests",
    "_seals",
    "_seen_ids",
    "_websocket",
)

METER = compiled("borzoi.shards.tallies", "_meter")

setup(ext_modules=[*(compiled(PROTOCOL, name) for name in NAMES), METER])
