"""Compiles the loops over messages, if it can; everything else is in pyproject.toml.

Without a C compiler, Python's headers or Cython the installation succeeds all the same, and the
same loops run in plain Python (protocol/plain_loops.py).
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "borzoi.protocol._loops",
            sources=["src/borzoi/protocol/_loops.pyx"],
            # Built once and run on many kinds of machines: nothing that only this one has.
            extra_compile_args=["-O3"],
            optional=True,
        )
    ]
)
