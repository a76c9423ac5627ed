"""The PySpark data source `iggy`: partitions of a broker as a source and a sink of Spark.

    spark = borzoi.spark.session()
    spark.readStream.format("iggy").option("server", "127.0.0.1:8090")...

It knows the wire, not the server. Spark finds it by the name of the package `pyspark_iggy`. What
plans (options.py, positions.py, boundaries.py, admission.py, splitting.py, data_loss.py) and what
decodes (decode.py) imports no Spark. Nothing here is imported before it is used: executors and
Spark's own look-up of data sources load as little as they can.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from borzoi.spark.progress import ProgressListener as ProgressListener
    from borzoi.spark.progress import lag as lag
    from borzoi.spark.spark_session import session as session

__all__ = ["ProgressListener", "lag", "session"]


def __getattr__(name: str) -> Any:
    if name == "session":
        from borzoi.spark.spark_session import session

        return session
    if name in ("lag", "ProgressListener"):
        from borzoi.spark import progress

        return getattr(progress, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
