import json

import pytest

from borzoi.protocol.errors import error_class
from borzoi.protocol.statuses import STATUSES
from borzoi.shards.web_forms.failures import (
    FIELDS,
    NOT_FOUND,
    NOT_LOGGED_IN,
    failure_of,
    snake_case,
)


@pytest.mark.parametrize("status", STATUSES)
def test_every_status_has_a_body(status: int) -> None:
    kind = error_class(status)
    assert kind is not None
    failure = failure_of(kind("why"))
    name = STATUSES[status].name
    assert json.loads(failure.body) == {
        "id": status,
        "code": snake_case(name),
        "reason": "why",
        "field": FIELDS.get(name),
    }
    wanted = 404 if name in NOT_FOUND else 401 if name in NOT_LOGGED_IN else 400
    assert failure.status == (403 if name == "Unauthorized" else wanted)


def test_names_of_the_lists_are_real() -> None:
    names = {row.name for row in STATUSES.values()}
    assert names >= NOT_FOUND | NOT_LOGGED_IN | set(FIELDS)


def test_snake_case() -> None:
    assert snake_case("StreamIdNotFound") == "stream_id_not_found"
    assert snake_case("IoError") == "io_error"
