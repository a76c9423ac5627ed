"""The columns of a row, and which of them a query wants.

Always: the Arrow type of a column is the one Spark expects for its Spark type; Spark checks the
first batch only, and the JVM does not survive a later one that differs.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from borzoi.spark.failures import InvalidSchema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

HEADERS_MAP: Final = "map<string,binary>"
HEADERS_STRUCTS: Final = "array<struct<key:binary,key_kind:int,value:binary,value_kind:int>>"
TYPES: Final = {
    "stream": "string",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "origin_timestamp": "timestamp",
    "id": "binary",
    "payload": "binary",
}
HEADERS: Final = "headers"


def spark_schema(include_headers: bool, as_structs: bool, columns: Sequence[str] | None) -> str:
    """The schema in Spark's words, for a query that gives none."""
    types = dict(TYPES)
    if include_headers:
        types[HEADERS] = HEADERS_STRUCTS if as_structs else HEADERS_MAP
    for name in columns or ():
        if name not in types:
            needs = "; it needs includeHeaders=true" if name == HEADERS else ""
            raise InvalidSchema(f"there is no column {name}{needs}; there are {', '.join(types)}")
    return ", ".join(f"`{name}` {types[name]}" for name in columns or types)


def check_schema(schema: "StructType", include_headers: bool, as_structs: bool) -> None:
    """Any columns of ours, in any order, each with its own type."""
    types = dict(TYPES)
    # Asking for the column by name is asking for it.
    types[HEADERS] = HEADERS_STRUCTS if as_structs else HEADERS_MAP
    if not schema.fields:
        raise InvalidSchema("the schema has no column")
    for field in schema.fields:
        found = field.dataType.simpleString()
        wanted = types.get(field.name)
        if wanted is None:
            raise InvalidSchema(f"there is no column {field.name}; there are {', '.join(types)}")
        if found != wanted:
            raise InvalidSchema(f"column {field.name} is {wanted}, not {found}")
        if not field.nullable and field.name == "origin_timestamp":
            raise InvalidSchema("origin_timestamp may be null")


def arrow_type(name: str, as_structs: bool) -> "pa.DataType":
    import pyarrow as pa

    match name:
        case "stream" | "topic":
            return pa.string()
        case "partition":
            return pa.int32()
        case "offset":
            return pa.int64()
        case "timestamp" | "origin_timestamp":
            return pa.timestamp("us", "UTC")
        case "id" | "payload":
            return pa.binary()
        case _ if as_structs:
            return pa.list_(
                pa.struct(
                    [
                        ("key", pa.binary()),
                        ("key_kind", pa.int32()),
                        ("value", pa.binary()),
                        ("value_kind", pa.int32()),
                    ]
                )
            )
        case _:
            return pa.map_(pa.string(), pa.binary())
