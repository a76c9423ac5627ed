"""By this name Spark finds the data source `iggy` on its own; the rest is in borzoi.spark.

Spark imports every installed package called pyspark_*, and gives up on all of them when one
fails. So this imports nothing but the class that tells Spark the name of the format.
"""

from borzoi.spark.source import IggyDataSource as DefaultSource

__all__ = ["DefaultSource"]
