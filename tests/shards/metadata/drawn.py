"""Values of any command or entry, drawn at random by the types of its fields."""

from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from borzoi.protocol.permissions import Permissions, UserStatus
from borzoi.shards.attached.attachment import Attachment
from tests.protocol import values

BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    int: values.u64,
    bool: st.booleans(),
    str: values.texts,
    bytes: st.binary(max_size=40),
    type(None): st.none(),
    UserStatus: st.sampled_from(UserStatus),
    Permissions: values.permissions,
    dict[str, int]: st.dictionaries(values.texts, values.u64, max_size=3),
    tuple[int, ...]: st.lists(values.u64, max_size=3).map(tuple),
    tuple[str, ...]: st.lists(values.texts, max_size=3).map(tuple),
    Attachment: st.builds(Attachment, values.texts, values.texts),
}


def drawn(kind: type) -> st.SearchStrategy[Any]:
    """Instances with whatever their fields can hold."""
    return st.builds(kind, **{name: _of(hint) for name, hint in get_type_hints(kind).items()})


def _of(hint: Any) -> st.SearchStrategy[Any]:
    if get_origin(hint) in (Union, UnionType):
        return st.one_of(*(BY_TYPE[one] for one in get_args(hint)))
    return BY_TYPE[hint]
