"""The columns of a row, and which of them a query wants.

Columns that are never null say so. Spark then does not ask each row whether it is, which is a
quarter of what the JVM does with a row.

Always: the Arrow schema of a batch is the one Spark expects for its own. Spark checks the first
batch only, and the JVM does not survive a later one that differs.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

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
NULLABLE: Final = frozenset({"origin_timestamp"})


class Column(NamedTuple):
    """A column that a query wants. One that is never null may be asked for as if it could be."""

    name: str
    nullable: bool


def spark_schema(include_headers: bool, as_structs: bool, columns: Sequence[str] | None) -> str:
    """The schema in Spark's words, for a query that gives none."""
    types = dict(TYPES)
    if include_headers:
        types[HEADERS] = HEADERS_STRUCTS if as_structs else HEADERS_MAP
    for name in columns or ():
        if name not in types:
            needs = "; it needs includeHeaders=true" if name == HEADERS else ""
            raise InvalidSchema(f"there is no column {name}{needs}; there are {', '.join(types)}")
    return ", ".join(
        f"`{name}` {types[name]}{'' if name in NULLABLE else ' NOT NULL'}"
        for name in columns or types
    )


def chosen_columns(schema: "StructType", as_structs: bool) -> tuple[Column, ...]:
    """Any columns of ours, in any order, each with its own type."""
    # Asking for the headers by name is asking for them.
    types = {**TYPES, HEADERS: HEADERS_STRUCTS if as_structs else HEADERS_MAP}
    if not schema.fields:
        raise InvalidSchema("the schema has no column")
    for field in schema.fields:
        found = field.dataType.simpleString()
        wanted = types.get(field.name)
        if wanted is None:
            raise InvalidSchema(f"there is no column {field.name}; there are {', '.join(types)}")
        if found != wanted:
            raise InvalidSchema(f"column {field.name} is {wanted}, not {found}")
        if not field.nullable and field.name in NULLABLE:
            raise InvalidSchema(f"{field.name} may be null")
    return tuple(Column(field.name, field.nullable) for field in schema.fields)


def arrow_schema(columns: Sequence[Column], as_structs: bool) -> "pa.Schema":
    """Returns the Arrow schema of these columns."""
    import pyarrow as pa

    return pa.schema(
        [pa.field(one.name, arrow_type(one.name, as_structs), one.nullable) for one in columns]
    )


def arrow_type(name: str, as_structs: bool) -> "pa.DataType":
    """Returns the Arrow type of a column; headers are structs with kinds, or a map."""
    import pyarrow as pa

    scalars = {
        "stream": pa.string(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "origin_timestamp": pa.timestamp("us", "UTC"),
        "id": pa.binary(),
        "payload": pa.binary(),
    }
    if name in scalars:
        return scalars[name]
    if not as_structs:
        return pa.map_(pa.string(), pa.binary())
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
