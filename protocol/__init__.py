"""The wire: bytes to values and back. Pure: no sockets, no files, no clock.

Commands and answers are classes whose fields say how they travel: commands/, responses/, kinds.py.
layout.py makes the codecs of a class, codec.py those of a table; classic.py is the table of today's
clients, generations.py chooses one per session. Batches of messages have compiled codecs of their
own: send_messages.py, batch.py, message.py; those of other generations are converted in edges.py.

To add a command:

1. Give it a number in codes.py, under the name of the specification.
2. Declare it as a Request in the file of commands/ that its subject has: a frozen dataclass, or
   `__slots__ = ()` if it has no fields. Fields stand in the order of the wire. Annotations are
   kinds (`u32`, `name8`, `partition`) or types of the domain (`Identifier`, `Consumer`, an IntEnum,
   another such class, `X | None` for a flag and a value).
3. If it is answered with something new, declare that in responses/ in the same way. Lists say how
   they end: `counted(X)`, `listed(X)`, or `Announced(X, "x_count")` after a field with that count.
4. Gather both in the `__init__` of their folder.
5. Add one row to ROWS in classic.py: `Code.GET_X: Row(GetX, OrEmpty(XDetails))`. A generation that
   has it otherwise overrides that row, the fields of that class, or a kind (layout.py).
6. Add its golden frames to tests/golden/frames.txt, from the specification or a capture, and its
   answer to REPLIES in tests/protocol/test_round_trips.py. Cuts, garbage and bounds follow.
7. Serve it: a handler in shards/handlers/ and its row in HANDLERS. tests/tidy checks that.
8. If the client may ask again after a lost connection, name it in client/repeating.py.
"""
