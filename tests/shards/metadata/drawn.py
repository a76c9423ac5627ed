"""Values of any command or entry, drawn at random by the types of its fields."""

from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from borzoi.protocol.permissions import Permissions, UserStatus
from tests.protocol import values

BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    int: values.u64,
    bool: st.booleans(),
    str: values.texts,
    bytes: st.binary(max_size=40),
    type(None): st.none(),
    UserStatus: st.sampled_from(UserStatus),
    Permissions: values.permissions,
}


def drawn(kind: type) -> st.SearchStrategy[Any]:
    """Instances with whatever their fields can hold."""
    return st.builds(kind, **{name: _of(hint) for name, hint in get_type_hints(kind).items()})


def _of(hint: Any) -> st.SearchStrategy[Any]:
    if get_origin(hint) in (Union, UnionType):
        return st.one_of(*(BY_TYPE[one] for one in get_args(hint)))
    return BY_TYPE[hint]
