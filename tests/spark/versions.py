"""The tests of this folder with another PySpark, and with no Java on PATH.

    python -m tests.spark.versions --pyspark 4.2.1 --java none
    python -m tests.spark.versions                      every version here, with and without Java

Each version gets an environment of its own that holds PySpark and what it needs; everything else
comes from the environment that runs this. Without Java means: a PATH with every program but
`java`, and no JAVA_HOME, so that Spark runs on the one that the extra `spark` brings.
"""

import itertools
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

ROOT: Final = Path(__file__).parents[2]
VERSIONS: Final = ("4.2.1", "4.3.0")
JAVAS: Final = ("system", "none")
WHICH: Final = "import pyspark; print(pyspark.__version__)"


def environment_with(version: str, directory: Path) -> Path:
    """The Python of a new environment with this PySpark; only that is installed."""
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    python = directory / "bin" / "python"
    pip: list[str | Path] = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    subprocess.run([*pip, f"pyspark=={version}"], check=True)
    own = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    )
    # What lies in the environment itself is found first.
    line = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    Path(own.stdout.strip(), "borzoi-tests.pth").write_text(line)
    return python


def path_without_java(directory: Path) -> str:
    """Links to every program on PATH, the first of a name as usual, without java."""
    directory.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in _programs(Path(place)):
            link = directory / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    return str(directory)


def run_tests(python: Path, java: str, directory: Path, arguments: tuple[str, ...]) -> int:
    environ = dict(os.environ)
    if java == "none":
        environ.pop("JAVA_HOME", None)
        environ["PATH"] = path_without_java(directory / "bin")
        environ["XDG_CACHE_HOME"] = str(directory / "cache")
    command: list[str | Path] = [python, "-m", "pytest", "-q", *(arguments or ("tests/spark",))]
    return subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode


def _programs(place: Path) -> Iterator[Path]:
    if place.is_dir():
        yield from (one for one in place.iterdir() if os.access(one, os.X_OK))


@click.command()
@click.option("--pyspark", "versions", multiple=True, help=f"Default: {', '.join(VERSIONS)}.")
@click.option("--java", "javas", type=click.Choice(JAVAS), multiple=True, help="Default: both.")
@click.argument("arguments", nargs=-1)
def main(versions: tuple[str, ...], javas: tuple[str, ...], arguments: tuple[str, ...]) -> None:
    """Run pytest with ARGUMENTS (tests/spark) for each PySpark and Java."""
    failed = []
    with tempfile.TemporaryDirectory(prefix="borzoi-pyspark-") as directory:
        place = Path(directory)
        pythons = {one: environment_with(one, place / one) for one in versions or VERSIONS}
        for number, (version, java) in enumerate(
            itertools.product(versions or VERSIONS, javas or JAVAS)
        ):
            python = pythons[version]
            said = subprocess.run([python, "-c", WHICH], capture_output=True, text=True, check=True)
            assert said.stdout.strip() == version, said.stdout
            click.echo(f"PySpark {version}, Java: {java}")
            own = place / str(number)
            own.mkdir()
            if run_tests(python, java, own, arguments):
                failed.append(f"PySpark {version} with Java {java}")
    if failed:
        raise click.ClickException(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
