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
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        from borzoi.spark.columns import spark_schema
        from borzoi.spark.options import read_options

        options = read_options(self.options, streaming=False)
        return spark_schema(options.include_headers, options.headers_as_structs, options.columns)

    def reader(self, schema: "StructType") -> DataSourceReader:
        from borzoi.spark.batch_reader import IggyReader
        from borzoi.spark.options import read_options

        return IggyReader(read_options(self.options, streaming=False), schema)

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:
        from borzoi.spark.options import read_options
        from borzoi.spark.stream_reader import IggyStreamReader

        return IggyStreamReader(read_options(self.options, streaming=True), schema)

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        from borzoi.spark.options import write_options
        from borzoi.spark.writer import IggyWriter

        return IggyWriter(write_options(self.options), schema, overwrite)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> DataSourceStreamWriter:
        from borzoi.spark.options import write_options
        from borzoi.spark.writer import IggyStreamWriter

        return IggyStreamWriter(write_options(self.options), schema)
