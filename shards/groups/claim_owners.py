"""Asking the owner of a partition in the name of a group, be it this shard or another.

Stateless, like Owners: the mirror image, what peers ask of us, is `serve` at the end.
"""

from borzoi.protocol.errors import BrokerError
from borzoi.router.target import Target
from borzoi.shards.groups.claims import Claims
from borzoi.shards.partitions.group_cursor import Claim, Watch
from borzoi.shards.ports.owners import Owners, rule_of_poll
from borzoi.shards.rings.asking import asked
from borzoi.shards.rings.peers import DeathRule, Peers
from borzoi.shards.rings.poll import UNKNOWN_USER, Poll
from borzoi.shards.rings.requests import Done, Request, RequestKind, poll_of, poll_option


class ClaimOwners:
    """Every partition of the broker, as groups poll it."""

    def __init__(self, owners: Owners, claims: Claims, peers: Peers) -> None:
        self._owners = owners
        self._claims = claims
        self._peers = peers

    def poll(self, target: Target, poll: Poll, claim: Claim, done: Done) -> None:
        """What a poll returns, decided and committed by the owner; it carries no bytes."""
        owner = self._owners.owner(target)
        if owner == self._owners.shard:
            self._claims.poll(target, poll, claim, done)
            return
        self._peers.ask(
            owner,
            RequestKind.GROUP_POLL,
            done,
            option=poll_option(poll),
            namespace=target.namespace,
            birth=target.birth,
            position=claim.epoch,
            length=claim.birth,
            first=poll.value,
            second=poll.count_max | claim.group_id << 32,
            rule=rule_of_poll(poll),
        )

    async def store_offset(self, target: Target, claim: Claim, offset: int) -> None:
        """Commit an offset of the group."""
        owner = self._owners.owner(target)

        def start(done: Done) -> None:
            if owner == self._owners.shard:
                self._claims.store_offset(target, claim, offset, done)
            else:
                self._peers.ask(
                    owner, RequestKind.GROUP_STORE, done, namespace=target.namespace,
                    birth=target.birth, position=claim.epoch, length=claim.birth,
                    first=offset, second=claim.group_id,
                )  # fmt: skip

        await asked(start)

    async def delete_offset(self, target: Target, claim: Claim) -> None:
        """Forget the committed offset of the group."""
        owner = self._owners.owner(target)

        def start(done: Done) -> None:
            if owner == self._owners.shard:
                self._claims.delete_offset(target, claim, done)
            else:
                self._peers.ask(
                    owner, RequestKind.GROUP_DELETE, done, namespace=target.namespace,
                    birth=target.birth, position=claim.epoch, length=claim.birth,
                    second=claim.group_id,
                    # Repeated, it would say that there was nothing to delete.
                    rule=DeathRule.FAIL,
                )  # fmt: skip

        await asked(start)

    def release(self, target: Target, group_id: int, birth: int, watch: Watch, done: Done) -> None:
        """Have a holder's right closed as soon as the rules allow; 1 if that is done already."""
        owner = self._owners.owner(target)
        if owner == self._owners.shard:
            self._claims.release(target, group_id, birth, watch, done)
            return
        self._peers.ask(
            owner, RequestKind.GROUP_RELEASE, done, option=int(watch.forced),
            namespace=target.namespace, birth=target.birth, position=watch.ticket, length=birth,
            first=watch.since, second=group_id,
        )  # fmt: skip

    def serve(self, request: Request, done: Done) -> None:
        """Carry out what a peer asks of a partition of ours."""
        try:
            target = self._owners.wanted(request)
        except BrokerError as error:
            done(error.status, 0, 0, 0)
            return
        claims = self._claims
        match request.kind:
            case RequestKind.GROUP_POLL:
                poll = poll_of(request, UNKNOWN_USER)
                claim = Claim(poll.consumer, request.length, request.position)
                claims.poll(target, poll, claim, done)
            case RequestKind.GROUP_STORE:
                claims.store_offset(target, _claim_of(request), request.first, done)
            case RequestKind.GROUP_DELETE:
                claims.delete_offset(target, _claim_of(request), done)
            case RequestKind.GROUP_RELEASE:
                watch = Watch(request.first, request.position, bool(request.option))
                claims.release(target, request.second, request.length, watch, done)
            case _:
                raise AssertionError(f"request kind {request.kind} claims no partition")


def _claim_of(request: Request) -> Claim:
    return Claim(request.second, request.length, request.position)
