"""The format `iggy` as Spark knows it: one class that makes readers and writers.

Spark imports this in short-lived processes only to learn the name, so what reads and writes is
imported when it is asked for.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FORMAT = "iggy"


class IggyDataSource(DataSource):
    """The format `iggy`. Spark calls it by these names on the driver."""

    @classmethod
    def name(cls) -> str:
        """Returns the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Returns the columns that the options ask for, as DDL."""
        from borzoi.spark.columns import spark_schema
        from borzoi.spark.option_table import read_options

        options = read_options(self.options, streaming=False)
        return spark_schema(options.include_headers, options.headers_as_structs, options.columns)

    def reader(self, schema: "StructType") -> DataSourceReader:
        """Returns the reader of a batch."""
        from borzoi.spark.batch_reader import IggyReader
        from borzoi.spark.option_table import read_options

        return IggyReader(read_options(self.options, streaming=False), schema)

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:
        """Returns the reader of a stream."""
        from borzoi.spark.option_table import read_options
        from borzoi.spark.stream_reader import IggyStreamReader

        return IggyStreamReader(read_options(self.options, streaming=True), schema)

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        """Returns the writer of a batch."""
        from borzoi.spark.option_table import write_options
        from borzoi.spark.writer import IggyWriter

        return IggyWriter(write_options(self.options), schema, overwrite)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> DataSourceStreamWriter:
        """Returns the writer of a stream."""
        from borzoi.spark.option_table import write_options
        from borzoi.spark.writer import IggyStreamWriter

        return IggyStreamWriter(write_options(self.options), schema)
