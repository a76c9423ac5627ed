r"""How messages are written by `message poll` and `tail`, for pipes and files.

    json               one object a line
    payload            the payload's bytes and a line feed
    '{offset} {id} {payload}\n'   a template; partition, offset, time, timestamp, origin_timestamp,
                       id, size, key (of the header `key`), headers and payload are its names

Payloads are escaped, unless --raw asks for their bytes. Pure but for `written`.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from borzoi.client.cli.showing import MessageAt, as_plain, payload_text, time_text
from borzoi.terminal import say, say_json

PLACE: Final = re.compile(r"\{(\w*)\}")
ESCAPES: Final = {r"\n": "\n", r"\t": "\t", r"\\": "\\"}
ESCAPE: Final = re.compile(r"\\[nt\\]")

NAMES: Final[Mapping[str, Callable[[MessageAt], str]]] = {
    "partition": lambda one: str(one.partition_id),
    "offset": lambda one: str(one.message.offset),
    "time": lambda one: time_text(one.message.timestamp),
    "timestamp": lambda one: str(one.message.timestamp),
    "origin_timestamp": lambda one: str(one.message.origin_timestamp),
    "id": lambda one: str(one.message.id),
    "size": lambda one: str(len(one.message.payload)),
    "headers": lambda one: json.dumps(_headers(one), ensure_ascii=False),
    "key": lambda one: str(_headers(one).get("key", "")),
    "payload": lambda one: payload_text(one.message),
}


class Form:
    """One of the words, or a template."""

    def __init__(self, text: str) -> None:
        self.is_json = text == "json"
        template = "{payload}" if text == "payload" else text
        self._template = ESCAPE.sub(lambda found: ESCAPES[found[0]], template).removesuffix("\n")
        unknown = [name for name in PLACE.findall(self._template) if name not in NAMES]
        if unknown and not self.is_json:
            raise ValueError(f"{{{unknown[0]}}} is no part of a message; {', '.join(NAMES)} are")
        if not self.is_json and not PLACE.search(self._template):
            raise ValueError(
                f"{text!r} is neither json, payload nor a template such as '{{payload}}'"
            )

    def line(self, one: MessageAt) -> str:
        """What stands for a message."""
        return PLACE.sub(lambda found: NAMES[found[1]](one), self._template)


class _FormType(click.ParamType):  # type: ignore[type-arg]  # not generic in all its versions
    name = "form"
    help: Final = r"json, payload, or a template such as '{partition}:{offset} {payload}'."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the form of a text."""
        try:
            return value if isinstance(value, Form) else Form(value)
        except ValueError as error:
            self.fail(f"{error}", param, ctx)


FORM: Final = _FormType()


def written(form: Form, one: MessageAt) -> None:
    """Writes a message in this form."""
    if form.is_json:
        say_json(json.dumps(as_plain(one), ensure_ascii=False))
    else:
        say(form.line(one), raw=bool(click.get_current_context().params.get("raw")))


def _headers(one: MessageAt) -> dict[str, Any]:
    headers: dict[str, Any] = as_plain(one.message)["headers"]
    return headers
