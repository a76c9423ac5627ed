"""The OpenAPI 3.1 document of this door, made from the table of routes. Pure.

Always: it says nothing that the rows do not say, and every row is in it.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from borzoi import __version__
from borzoi.shards.web_forms.failures import JSON, ErrorBody
from borzoi.shards.web_routes.endpoint import Endpoint

REFERENCE: Final = "#/components/schemas/{name}"
PLAIN: Final = {"text/plain": {"schema": {"type": "string"}}}


def document(routes: Iterable[Endpoint]) -> bytes:
    """The whole document as JSON."""
    rows = sorted(routes, key=lambda one: (one.path, one.method))
    named = [kind for row in rows for kind in (row.body, row.answer, row.query)]
    types = [ErrorBody, *filter(None, named)]
    schemas, components = msgspec.json.schema_components(types, ref_template=REFERENCE)
    by_type = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for row in rows:
        operation = _operation(row, by_type, components)
        paths.setdefault(row.path, {})[row.method.lower()] = operation
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "borzoi", "version": __version__},
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {
                    "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
                },
            },
        }
    )


def _operation(
    row: Endpoint, schemas: dict[str, Any], components: dict[str, Any]
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": f"{row.method.lower()}{row.path}".replace("/", "_").strip("_"),
        "summary": row.summary,
        "parameters": [*_path(row), *_query(row, schemas, components)],
        "responses": _responses(row, schemas),
    }
    if row.body is not None:
        content = {JSON: {"schema": schemas[repr(row.body)]}}
        content |= {kind: {} for kind in row.other_bodies}
        found["requestBody"] = {"required": True, "content": content}
    if not row.is_public:
        found["security"] = [{"token": []}]
    return found


def _path(row: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in row.names
    ]


def _query(
    row: Endpoint, schemas: dict[str, Any], components: dict[str, Any]
) -> list[dict[str, Any]]:
    if row.query is None:
        return []
    named = schemas[repr(row.query)]["$ref"].rpartition("/")[2]
    schema = components[named]
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": each}
        for name, each in schema["properties"].items()
    ]


def _responses(row: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {kind: {} for kind in row.other_types}
    if row.answer is not None:
        content[JSON] = {"schema": schemas[repr(row.answer)]}
    elif row.is_text:
        content |= PLAIN
    success: dict[str, Any] = {"description": row.summary}
    if content:
        success["content"] = content
    error = {JSON: {"schema": schemas[repr(ErrorBody)]}}
    failures: dict[str, Any] = {
        "400": {"description": "It cannot be done, or not be read", "content": {**error, **PLAIN}},
        "default": {"description": "Any other failure", "content": {**error, **PLAIN}},
    }
    if not row.is_public:
        failures["401"] = {"description": "No valid token"}
        failures["403"] = {"description": "The user lacks the permission", "content": error}
    return {str(row.status): success, **failures}
