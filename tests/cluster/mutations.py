"""The lane machine with one rule less, each made from its source by an exact replacement."""

from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple

from borzoi.cluster import lane

SOURCE: Final = Path(lane.__file__)


class Mutation(NamedTuple):
    """A rule that is missing: these lines instead of those."""

    name: str
    before: str
    after: str
    seed: int
    """A history that fails without the rule."""


MUTATIONS: Final = (
    Mutation(
        "fences are deleted",
        "for slot in range(begin, name.next) if slot not in self._fences]",
        "for slot in range(begin, name.next)]",
        1,
    ),
    Mutation(
        "a sweep deletes fences",
        "slot < newest.next and one.size != FENCE_SIZE",
        "slot < newest.next",
        41,
    ),
    Mutation(
        "no check after the fence",
        "if (yield from _newest_checkpoint(lane)) == start:",
        "if True:",
        3,
    ),
    Mutation(
        "the check after the fence only compares slots",
        "if (yield from _newest_checkpoint(lane)) == start:",
        "seen = yield from _newest_checkpoint(lane)\n"
        "            if seen is None or seen.next <= walk.opened(start).fence:",
        1244,
    ),
    Mutation(
        "no gap behind a fence",
        "after = self._slot + self._window\n",
        "after = self._slot + 1\n",
        0,
    ),
    Mutation(
        "everything is put over what is there",
        "    Create,\n    Delete,",
        "    Delete,\n    Put as Create,",
        3,
    ),
    Mutation(
        "fences are put over what is there",
        "result = yield from _until_known(Create(key, body))",
        "result = yield from _until_known(Put(key, body))",
        1,
    ),
    Mutation(
        "refused without a look at checkpoints",
        "if self._is_fenced and not is_covered else",
        "if self._is_fenced else",
        2655,
    ),
    Mutation(
        "everything unconfirmed is refused",
        "ended = [slot for slot in self._groups if slot >= lost_at]",
        "ended = list(self._groups)",
        3401,
    ),
    Mutation(
        "exists is believed to be ours",
        "return Step([Get(operation.key)], [])",
        "return self._confirm(slot)",
        0,
    ),
    Mutation(
        "exists is believed to be another's",
        "        if body == group.body:\n            return self._confirm(slot)\n"
        "        self._lost_at = slot\n"
        "        self._is_fenced = isinstance(_decoded(body, self._lane, slot), FenceSlot)",
        "        self._lost_at = slot\n        self._is_fenced = True",
        2,
    ),
    Mutation(
        "an unknown put is believed",
        "return Step([operation._replace(tries=operation.tries + 1)], [])",
        "return self._confirm(slot)",
        3,
    ),
    Mutation(
        "groups are confirmed out of order",
        "while (head := self._groups.get(self._confirmed)) is not None and head.is_confirmed:",
        "while (head := self._groups.get(self._confirmed)) is not None:",
        0,
    ),
    Mutation(
        "the window is not kept",
        "self._next < self._confirmed + self._opened.window",
        "self._next < self._confirmed + 3 * self._opened.window",
        2,
    ),
    Mutation(
        "slots are freed before the checkpoint is stored",
        "yield from _until_known(Put(checkpoint_key(self._lane, name), body))\n"
        "        freed = self._freed_by(name, packs)",
        "freed = self._freed_by(name, packs)\n"
        "        yield [Delete(key) for key in freed]\n"
        "        yield from _until_known(Put(checkpoint_key(self._lane, name), body))",
        8,
    ),
    Mutation(
        "a checkpoint is stored before its pack is known to be",
        "yield from _until_known(Put(pack_key(self._lane, name), pack))",
        "yield [Put(pack_key(self._lane, name), pack)]",
        20,
    ),
    Mutation(
        "one slot too many is freed",
        "range(begin, name.next)",
        "range(begin, name.next + 1)",
        1,
    ),
    Mutation(
        "a sweep takes unknown packs without a proof",
        "is_proved = self._confirmed > self._proof",
        "is_proved = True",
        2454,
    ),
    Mutation(
        "a sweep takes packs of later checkpoints",
        "name is not None and name < newest and name not in packs",
        "name is not None and name not in packs",
        1,
    ),
)


def mutated(mutation: Mutation) -> ModuleType:
    """The machine without this rule."""
    source = SOURCE.read_text()
    count = source.count(mutation.before)
    assert count == 1, f"{mutation.name}: its lines are there {count} times"
    module = ModuleType("mutated")
    code = compile(source.replace(mutation.before, mutation.after), mutation.name, "exec")
    exec(code, module.__dict__)
    return module
