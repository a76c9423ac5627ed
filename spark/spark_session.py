"""session(): a SparkSession in which the format `iggy` works, with nothing to set up before.

By default Spark takes its Python workers from PATH, finds no `iggy` there and does not say why. It
also needs a Java, and guesses host names. All of that is settled here. A session made elsewhere is
as good as long as PYSPARK_PYTHON names this interpreter.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from borzoi.spark.cores import inherited, tell_master
from borzoi.spark.failures import IggyError
from borzoi.spark.java import java_home
from borzoi.spark.scripts import installed_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSION_MIN: Final = (4, 2)
APP_NAME: Final = "borzoi"
LOCAL: Final = "local[*]"
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # set by spark-submit, which has its own idea of masters
# Half the time to the first row, where a session does not live long enough to need more.
SHORT_LIVED: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def session(
    master: str | None = None,
    *,
    app_name: str = APP_NAME,
    config: Mapping[str, str] | None = None,
    short_lived: bool = False,
) -> "SparkSession":
    """The running session, or a new one.

    `master` is local[*] unless given here, in `config` or by spark-submit. `short_lived` is for
    tests and commands that end within a minute or so. The JVM and each Python process start faster,
    and the JVM peaks lower. The workers have to be those of this machine.
    """
    try:
        import pyspark
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise IggyError(
            f"{error.name} is not installed; install borzoi with its extra `spark`"
        ) from error
    check_version(pyspark.__version__)
    python = sys.executable
    if short_lived and "PYSPARK_PYTHON" not in os.environ:
        python = str(installed_pyspark(sys.executable, os.environ))
    os.environ.setdefault("PYSPARK_PYTHON", python)
    # What runs data sources that Spark has found on its own.
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", python)
    if SparkSession.getActiveSession() is None:
        os.environ["JAVA_HOME"] = str(java_home(os.environ))
    given = dict(config or {})
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    elif "spark.master" not in given and SUBMITTED not in os.environ:
        builder = builder.master(master := LOCAL)
    chosen = master or given.get("spark.master", "")
    is_local = chosen.startswith("local")
    os.environ |= inherited()
    for name, value in (default_config(is_local, short_lived) | given).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    # What it really is: another thread may have started it, or spark-submit.
    tell_master(str(spark.conf.get("spark.master", "")))
    return spark


@contextmanager
def own_session(
    master: str | None = None,
    *,
    app_name: str = APP_NAME,
    config: Mapping[str, str] | None = None,
) -> "Iterator[SparkSession]":
    """For commands: session(), stopped at the end unless it was running before."""
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError:
        was_running = False  # session() says what to do about it
    else:
        was_running = SparkSession.getActiveSession() is not None
    spark = session(master, app_name=app_name, config=config)
    try:
        yield spark
    finally:
        if not was_running:
            spark.stop()


def check_version(version: str) -> None:
    """Raises IggyError if PySpark is too old for limited batches."""
    numbers = tuple(int(part) for part in version.split(".")[:2])
    if numbers < VERSION_MIN:
        wanted = ".".join(map(str, VERSION_MIN))
        raise IggyError(
            f"pyspark {version} cannot limit what a batch of a Python source reads;"
            f" install pyspark>={wanted}"
        )


def default_config(is_local: bool, short_lived: bool) -> dict[str, str]:
    """What a caller may still override."""
    # Instants are shown and written as they are, wherever the program runs.
    config = {"spark.sql.session.timeZone": "UTC"}
    if is_local:
        # A machine whose own name does not resolve would not start otherwise.
        config |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        # Spark's 200 are 200 tasks for each small batch: 72 s for 2,000 rows in windows.
        config["spark.sql.shuffle.partitions"] = str(len(os.sched_getaffinity(0)))
    if short_lived:
        config |= {
            "spark.driver.extraJavaOptions": SHORT_LIVED,
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
    return config
