"""The NATS part of the Liftbridge door of one shard, made of its settings."""

import ssl
from typing import Final

from borzoi.liftbridge.intake import Intake
from borzoi.liftbridge.nats_link import Access, LinkCounts, NatsLink
from borzoi.liftbridge.ports import NotAllowed, User
from borzoi.liftbridge.publishing import Publishing
from borzoi.liftbridge.subject_publishing import SubjectPublishing
from borzoi.quantities import seconds
from borzoi.shards.bridge.nats import NatsPartitions
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.handlers.services import Services
from borzoi.shards.metadata.state import ROOT_USER_ID
from borzoi.shards.rings.peers import Peers
from borzoi.shards.settings.errors import ConfigError
from borzoi.shards.settings.schema import LiftbridgeNats, NatsTls

KEY: Final = "liftbridge.nats"


def new_nats(
    shard: int,
    settings: LiftbridgeNats,
    services: Services,
    publishing: Publishing,
    peers: Peers,
) -> NatsPartitions:
    """The subscriptions of a shard; publishing to subjects goes through NATS from now on."""
    link = NatsLink(nats_access(settings), f"borzoi shard {shard}", LinkCounts())
    publishing.through_nats = SubjectPublishing(publishing.bridge, link)
    stored_for = _StoredFor(services.metadata, settings.user)
    intake = Intake(publishing, link, stored_for.user, settings.pending_size_max)
    return NatsPartitions(services.owners, publishing, link, intake, peers, services.tasks)


def nats_access(settings: LiftbridgeNats) -> Access:
    """Where the servers are, and how to log in there; ConfigError if a file cannot be used."""
    return Access(
        settings.servers,
        settings.username,
        settings.password,
        settings.token,
        _context(settings.tls) if settings.tls.enabled else None,
        seconds(settings.reconnect_interval),
    )


def _context(tls: NatsTls) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=tls.ca_file or None)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if tls.client_cert_file:
            # A passphrase, so that an encrypted key is an error and no prompt on the terminal.
            context.load_cert_chain(tls.client_cert_file, tls.client_key_file or None, "")
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(filter(None, (tls.ca_file, tls.client_cert_file, tls.client_key_file)))
        raise ConfigError(f"{KEY}.tls: {files} cannot be used: {error}") from error
    return context


class _StoredFor:
    """The user that messages of NATS are stored for."""

    def __init__(self, metadata: MetadataService, name: str) -> None:
        self._metadata = metadata
        self._name = name

    def user(self) -> User:
        """The user as it is now."""
        state = self._metadata.refresh()
        found = state.find_user(self._name) if self._name else state.users.get(ROOT_USER_ID)
        if found is None:
            raise NotAllowed(f"{KEY}.user is {self._name!r}, which is no user")
        return User(found.id, found.created_at)
