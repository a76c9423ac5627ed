"""Every setting of the broker, with its default: the whole configuration as frozen values.

Field names are the TOML keys; the path of a field is its key and, upper-cased, its environment
name. Sizes are bytes and durations microseconds, whatever text they were written as. A field's
kind (how it is read and shown) stands in its annotation; a Literal is one of these names.

Names and defaults are those of the Iggy 0.8.0 server, so that its files and its environment
variables work. The differences are ours: `system.sharding.cpu_allocation` and
`system.state.enforce_fsync` have other defaults, `system.partition.durability`,
`system.segment.protect_unread`, `system.segment.unread_grace`, `system.encryption.key_file`,
`system.encryption.old_keys`, `system.state.snapshot_entries`, `system.state.snapshot_size`,
`system.logging.json`, `system.stop_timeout`, `client_ca_file` and `client_auth` of a door's TLS,
and the tables `limits`, `metrics`, `console`, `liftbridge`, `replication` and
`data_maintenance.archiver` are new.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from borzoi.quantities import DAY, GIB, HOUR, KIB, MIB, MILLISECOND, MINUTE, SECOND
from borzoi.shards.settings import kinds
from borzoi.shards.settings.kinds import NEVER, UNLIMITED

Flag = Annotated[bool, kinds.BOOL]
Text = Annotated[str, kinds.TEXT]
Secret = Annotated[str, kinds.SECRET]
Texts = Annotated[tuple[str, ...], kinds.TEXTS]
U16 = Annotated[int, kinds.U16]
U32 = Annotated[int, kinds.U32]
U64 = Annotated[int, kinds.U64]
Size = Annotated[int, kinds.SIZE]
TopicSize = Annotated[int, kinds.TOPIC_SIZE]
Duration = Annotated[int, kinds.DURATION]
Expiry = Annotated[int, kinds.EXPIRY]
Address = Annotated[str, kinds.ADDRESS]
CacheIndexes = Annotated[Literal["all", "open_segment", "none"], kinds.CACHE_INDEXES]
Transport = Literal["grpc", "http"]
Codec = Literal["none", "gzip", "lz4", "zstd"]
Durability = Literal["written", "buffered", "fsync", "replicated"]
ArchiverKind = Literal["disk", "s3"]
ProtectUnread = Literal["always", "until_full", "bounded", "never"]
ClientAuth = Literal["none", "optional", "required"]
PlainLogin = Literal["warn", "refuse"]
CpuAllocationText = Annotated[str, kinds.CPU_ALLOCATION]

CERT_FILE = "core/certs/iggy_cert.pem"
KEY_FILE = "core/certs/iggy_key.pem"


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table of the configuration. Fields annotated with a Table are sub-tables."""


class ConsumerGroup(Table, frozen=True, kw_only=True):
    """How long members of a group have to give up partitions, and how often that is checked."""

    rebalancing_timeout: Duration = 30 * SECOND
    rebalancing_check_interval: Duration = 5 * SECOND


class MessagesMaintenance(Table, frozen=True, kw_only=True):
    """Retention: whether, and how often, expired and surplus segments are deleted."""

    cleaner_enabled: Flag = False
    interval: Duration = MINUTE


class ArchiverS3(Table, frozen=True, kw_only=True):
    """Without key_id and credentials_file: the AWS_* variables, or the machine's own role."""

    bucket: Text = ""
    prefix: Text = ""
    endpoint: Text = ""
    region: Text = ""
    key_id: Text = ""
    key_secret: Secret = ""
    credentials_file: Text = ""


class ArchiverSettings(Table, frozen=True, kw_only=True):
    """`disk` archives to system.backup.path."""

    enabled: Flag = False
    kind: ArchiverKind = "disk"
    interval: Duration = MINUTE
    s3: ArchiverS3 = ArchiverS3()


class DataMaintenance(Table, frozen=True, kw_only=True):
    """What happens to sealed segments."""

    archiver: ArchiverSettings = ArchiverSettings()
    messages: MessagesMaintenance = MessagesMaintenance()


class Cors(Table, frozen=True, kw_only=True):
    """Which web pages may use the HTTP door."""

    enabled: Flag = True
    allowed_methods: Texts = ("GET", "POST", "PUT", "DELETE")
    allowed_origins: Texts = ("*",)
    allowed_headers: Texts = ("content-type", "authorization")
    exposed_headers: Texts = ("",)
    allow_credentials: Flag = False
    allow_private_network: Flag = False


class TrustedIssuer(Table, frozen=True, kw_only=True):
    """A foreign issuer of tokens, and the user that its tokens stand for."""

    issuer: Text
    jwks_url: Text
    audience: Text
    user_id: U32 = 0


class Jwt(Table, frozen=True, kw_only=True):
    """The tokens of the HTTP door."""

    algorithm: Text = "HS256"
    issuer: Text = "iggy.apache.org"
    audience: Text = "iggy.apache.org"
    valid_issuers: Texts = ("iggy.apache.org",)
    valid_audiences: Texts = ("iggy.apache.org",)
    access_token_expiry: Expiry = HOUR
    clock_skew: Duration = 5 * SECOND
    not_before: Duration = 0
    encoding_secret: Secret = ""
    decoding_secret: Secret = ""
    use_base64_secret: Flag = False
    # User 0 is root and is refused, so this entry of the 0.8.0 file lets no user in.
    trusted_issuers: tuple[TrustedIssuer, ...] = (
        TrustedIssuer(
            issuer="test-issuer",
            jwks_url="http://127.0.0.1:8081/.well-known/jwks.json",
            audience="iggy.apache.org",
        ),
    )


class HttpMetrics(Table, frozen=True, kw_only=True):
    """`endpoint` is also the path of the listener in `metrics`."""

    enabled: Flag = True
    endpoint: Text = "/metrics"


class HttpTls(Table, frozen=True, kw_only=True):
    """TLS of the HTTP door; `client_auth` and `client_ca_file` as on other doors (ours)."""

    enabled: Flag = False
    cert_file: Text = CERT_FILE
    key_file: Text = KEY_FILE
    client_ca_file: Text = ""
    client_auth: ClientAuth = "none"


class Http(Table, frozen=True, kw_only=True):
    """The HTTP door."""

    enabled: Flag = True
    address: Address = "127.0.0.1:3000"
    max_request_size: Size = 2_000_000
    web_ui: Flag = False
    cors: Cors = Cors()
    jwt: Jwt = Jwt()
    metrics: HttpMetrics = HttpMetrics()
    tls: HttpTls = HttpTls()


class ConsoleSettings(Table, frozen=True, kw_only=True):
    """The web console of the HTTP door at /ui (ours). `http.web_ui` opens it on any address.

    enabled  on addresses that only this machine reaches
    reports  the directory with reports of `borzoi bench` that it shows; without one it shows none
    """

    enabled: Flag = True
    reports: Text = ""


class Tls(Table, frozen=True, kw_only=True):
    """TLS of a door; `self_signed` makes a certificate at the start if `cert_file` is not there.

    Ours: with `client_auth` "optional" or "required" clients show certificates, which are signed by
    an authority of `client_ca_file`.
    """

    enabled: Flag = False
    self_signed: Flag = True
    cert_file: Text = CERT_FILE
    key_file: Text = KEY_FILE
    client_ca_file: Text = ""
    client_auth: ClientAuth = "none"


class TcpSocket(Table, frozen=True, kw_only=True):
    """The other keys apply only when `override_defaults` is true."""

    override_defaults: Flag = False
    recv_buffer_size: Size = 100_000
    send_buffer_size: Size = 100_000
    keepalive: Flag = False
    nodelay: Flag = False
    linger: Duration = 0


class Tcp(Table, frozen=True, kw_only=True):
    """The TCP door."""

    enabled: Flag = True
    address: Address = "127.0.0.1:8090"
    socket_migration: Flag = True
    ipv6: Flag = False
    tls: Tls = Tls()
    socket: TcpSocket = TcpSocket()


class QuicCertificate(Table, frozen=True, kw_only=True):
    """The certificate of the QUIC door."""

    self_signed: Flag = True
    cert_file: Text = CERT_FILE
    key_file: Text = KEY_FILE


class QuicSocket(Table, frozen=True, kw_only=True):
    """The other keys apply only when `override_defaults` is true."""

    override_defaults: Flag = False
    recv_buffer_size: Size = 64_000
    send_buffer_size: Size = 64_000
    keepalive: Flag = False


class Quic(Table, frozen=True, kw_only=True):
    """The QUIC door."""

    enabled: Flag = True
    address: Address = "127.0.0.1:8080"
    max_concurrent_bidi_streams: U64 = 10_000
    datagram_send_buffer_size: Size = 100_000
    initial_mtu: Size = 8_000
    send_window: Size = 100_000
    receive_window: Size = 100_000
    keep_alive_interval: Duration = 5 * SECOND
    max_idle_timeout: Duration = 10 * SECOND
    certificate: QuicCertificate = QuicCertificate()
    socket: QuicSocket = QuicSocket()


class Websocket(Table, frozen=True, kw_only=True):
    """A size that is None is left to the WebSocket library."""

    enabled: Flag = True
    address: Address = "127.0.0.1:8092"
    read_buffer_size: Size | None = None
    write_buffer_size: Size | None = None
    max_write_buffer_size: Size | None = None
    max_message_size: Size | None = None
    max_frame_size: Size | None = None
    accept_unmasked_frames: Flag = False
    tls: Tls = Tls()


class NatsTls(Table, frozen=True, kw_only=True):
    """TLS to the NATS servers: which authority vouches for them, and what this broker shows."""

    enabled: Flag = False
    ca_file: Text = ""
    client_cert_file: Text = ""
    client_key_file: Text = ""


class LiftbridgeNats(Table, frozen=True, kw_only=True):
    """The NATS servers whose messages the streams of Liftbridge keep; none without a server.

    username, password  how this broker logs in there, or by `token`
    user                the user of this broker that messages are stored for; root without one
    pending_size_max    bytes on their way into the log, per shard; more are dropped and counted
    """

    servers: Texts = ()
    username: Text = ""
    password: Secret = ""
    token: Secret = ""
    user: Text = ""
    pending_size_max: Size = 64 * MIB
    reconnect_interval: Duration = SECOND // 2
    tls: NatsTls = NatsTls()


class Liftbridge(Table, frozen=True, kw_only=True):
    """The gRPC door for clients of Liftbridge (ours).

    stream              the stream of Iggy whose topics are the streams of Liftbridge
    advertised_address  where clients are sent, if that is not `address`
    anonymous_user      the user of clients without a login; for doors on loopback alone
    """

    enabled: Flag = False
    address: Address = "127.0.0.1:9292"
    stream: Text = "liftbridge"
    advertised_address: Text = ""
    anonymous_user: Text = ""
    tls: Tls = Tls()
    nats: LiftbridgeNats = LiftbridgeNats()


class MessageSaver(Table, frozen=True, kw_only=True):
    """How often what is written is synced and the recovery points are saved."""

    enabled: Flag = True
    enforce_fsync: Flag = True
    interval: Duration = 30 * SECOND


class TokenCleanerSettings(Table, frozen=True, kw_only=True):
    """How often expired tokens are deleted."""

    enabled: Flag = True
    interval: Duration = MINUTE


class PersonalAccessToken(Table, frozen=True, kw_only=True):
    """Tokens with which clients log in instead of a password."""

    max_tokens_per_user: U32 = 100
    cleaner: TokenCleanerSettings = TokenCleanerSettings()


class Heartbeat(Table, frozen=True, kw_only=True):
    """Whether silent clients leave the registry, and how often they have to ping."""

    enabled: Flag = False
    interval: Duration = 5 * SECOND


class TelemetryLogs(Table, frozen=True, kw_only=True):
    """Where logs go."""

    transport: Transport = "grpc"
    endpoint: Text = "http://localhost:7281/v1/logs"


class TelemetryTraces(Table, frozen=True, kw_only=True):
    """Where traces go."""

    transport: Transport = "grpc"
    endpoint: Text = "http://localhost:7281/v1/traces"


class Telemetry(Table, frozen=True, kw_only=True):
    """OpenTelemetry."""

    enabled: Flag = False
    service_name: Text = "iggy"
    logs: TelemetryLogs = TelemetryLogs()
    traces: TelemetryTraces = TelemetryTraces()


class BackupCompatibility(Table, frozen=True, kw_only=True):
    """Without effect: data of other servers is not migrated."""

    path: Text = "compatibility"


class Backup(Table, frozen=True, kw_only=True):
    """The place of the archive on disk."""

    path: Text = "backup"
    compatibility: BackupCompatibility = BackupCompatibility()


class StateSettings(Table, frozen=True, kw_only=True):
    """The metadata log.

    Ours: after `snapshot_entries` entries, or `snapshot_size` of them if the last snapshot was not
    larger, another snapshot is written. The log is shortened behind the one before, so that it
    holds little more than twice as much.
    """

    snapshot_entries: U32 = 10_000
    snapshot_size: Size = 4 * MIB
    enforce_fsync: Flag = True
    max_file_operation_retries: U32 = 1
    retry_delay: Duration = SECOND


class Runtime(Table, frozen=True, kw_only=True):
    """The place for files of the running server."""

    path: Text = "runtime"


class Logging(Table, frozen=True, kw_only=True):
    """The log lines: level, form, files and how long these are kept."""

    path: Text = "logs"
    level: Text = "info"
    json: Flag = False
    file_enabled: Flag = True
    max_file_size: Size = 500_000_000
    max_total_size: Size = 4_000_000_000
    rotation_check_interval: Duration = HOUR
    retention: Duration = 7 * DAY
    sysinfo_print_interval: Duration = 10 * SECOND


class Encryption(Table, frozen=True, kw_only=True):
    """Ours are `key_file`, a file that holds the key, and `old_keys`, those of before."""

    enabled: Flag = False
    key: Secret = ""
    key_file: Text = ""
    old_keys: Secret = ""


class Compression(Table, frozen=True, kw_only=True):
    """The codec of sealed segments, and whether topics choose their own."""

    allow_override: Flag = False
    default_algorithm: Codec = "none"


class StreamSettings(Table, frozen=True, kw_only=True):
    """The folder of streams."""

    path: Text = "streams"


class SystemTopicSettings(Table, frozen=True, kw_only=True):
    """The folder of topics, and the limits of those that ask for the default."""

    path: Text = "topics"
    max_size: TopicSize = UNLIMITED
    message_expiry: Expiry = NEVER


class PartitionSettings(Table, frozen=True, kw_only=True):
    """`durability` is what counts: loading turns `enforce_fsync = true` into "fsync"."""

    path: Text = "partitions"
    durability: Durability = "written"
    enforce_fsync: Flag = False
    validate_checksum: Flag = False
    messages_required_to_save: U32 = 1024
    size_of_messages_required_to_save: Size = MIB


class SegmentSettings(Table, frozen=True, kw_only=True):
    """`protect_unread` (ours): what a committed offset keeps retention from deleting behind it.

    "bounded": unread segments stay up to the full size of their topic, and past their expiry for
    the longer of that expiry and `unread_grace` (ours). "until_full": only the size ends it.
    "always": nothing does. "never": unread segments go like all others. DELETE_SEGMENTS deletes
    only what is read, whatever this says.
    """

    size: Size = GIB
    archive_expired: Flag = False
    cache_indexes: CacheIndexes = "open_segment"
    protect_unread: ProtectUnread = "bounded"
    unread_grace: Duration = HOUR


class MessageDeduplication(Table, frozen=True, kw_only=True):
    """How many ids a partition remembers, and how long."""

    enabled: Flag = False
    max_entries: U64 = 10_000
    expiry: Duration = MINUTE


class RecoverySettings(Table, frozen=True, kw_only=True):
    """Without effect: metadata that is missing is never invented."""

    recreate_missing_state: Flag = False


class MemoryPool(Table, frozen=True, kw_only=True):
    """The memory for frames that are being received."""

    enabled: Flag = True
    size: Size = 4 * GIB
    bucket_capacity: U32 = 8192


class Sharding(Table, frozen=True, kw_only=True):
    """How many shards there are, and on which CPUs."""

    cpu_allocation: CpuAllocationText = "all"


class System(Table, frozen=True, kw_only=True):
    """`stop_timeout` (ours) bounds a stop: a worker that still writes or syncs then is killed."""

    path: Text = "local_data"
    stop_timeout: Duration = 5 * MINUTE
    backup: Backup = Backup()
    state: StateSettings = StateSettings()
    runtime: Runtime = Runtime()
    logging: Logging = Logging()
    encryption: Encryption = Encryption()
    compression: Compression = Compression()
    stream: StreamSettings = StreamSettings()
    topic: SystemTopicSettings = SystemTopicSettings()
    partition: PartitionSettings = PartitionSettings()
    segment: SegmentSettings = SegmentSettings()
    message_deduplication: MessageDeduplication = MessageDeduplication()
    recovery: RecoverySettings = RecoverySettings()
    memory_pool: MemoryPool = MemoryPool()
    sharding: Sharding = Sharding()


class CurrentNode(Table, frozen=True, kw_only=True):
    """The node that serves, as clients see it."""

    name: Text = "iggy-node-1"
    ip: Text = "127.0.0.1"


class NodePorts(Table, frozen=True, kw_only=True):
    """A port that is None is the current node's."""

    tcp: U16 | None = None
    quic: U16 | None = None
    http: U16 | None = None
    websocket: U16 | None = None


class OtherNode(Table, frozen=True, kw_only=True):
    """Another node, as clients see it."""

    name: Text
    ip: Text
    ports: NodePorts = NodePorts()


class Nodes(Table, frozen=True, kw_only=True):
    """All nodes of the cluster."""

    current: CurrentNode = CurrentNode()
    others: tuple[OtherNode, ...] = (
        OtherNode(
            name="iggy-node-2",
            ip="127.0.0.1",
            ports=NodePorts(tcp=8091, quic=8081, http=3001, websocket=8093),
        ),
    )


class ClusterSettings(Table, frozen=True, kw_only=True):
    """The answer to GET_CLUSTER_METADATA."""

    enabled: Flag = False
    name: Text = "iggy-cluster"
    node: Nodes = Nodes()


class Replication(Table, frozen=True, kw_only=True):
    """Everything goes into a store of objects before it is acknowledged (ours).

    store                a directory that survives this machine, or s3://BUCKET/PREFIX, with
                         credentials in the AWS_* variables
    endpoint             of a bucket that is not at AWS; `region`, its region
    cluster              the id in the store's cluster.json, 32 hex digits; empty: what is there
    node                 the name of this node, which no other one has
    lanes                logs in the store, for a new cluster: a multiple of the number of shards. 0
                         is the least such number from 12 on
    linger               a send waits so long for others to share its object
    object_size          an object is put without more waiting once it has so many bytes
    store_timeout        a send fails if the store stores nothing for so long
    checkpoint_size      so many bytes behind the last checkpoint, or the age of the first of them,
    checkpoint_interval  and another checkpoint is made, which frees them
    """

    enabled: Flag = False
    store: Text = ""
    endpoint: Text = ""
    region: Text = ""
    cluster: Text = ""
    node: Text = "node-1"
    lanes: U32 = 0
    linger: Duration = 2 * MILLISECOND
    object_size: Size = 4 * MIB
    store_timeout: Duration = 30 * SECOND
    checkpoint_size: Size = 64 * MIB
    checkpoint_interval: Duration = MINUTE


class Metrics(Table, frozen=True, kw_only=True):
    """A listener of its own for metrics (ours).

    names        streams, topics and consumer groups are shown with their names, not only by id
    series_max   rows of one kind in an answer; how many more there are is counted as well
    """

    enabled: Flag = False
    address: Address = "127.0.0.1:8094"
    names: Flag = False
    series_max: U32 = 10_000


class Limits(Table, frozen=True, kw_only=True):
    """Bounds that the 0.8.0 server does not have or does not let anybody set (ours).

    frame_size_max               a SEND_MESSAGES frame
    control_frame_size_max       the payload of any other frame of a logged-in client
    frame_size_max_before_login  any frame before the login
    response_size_max            the answer to one poll
    copied_size_max              messages of encrypted and compressed segments in the memory of one
                                 shard until they are sent; one poll gets a quarter of it
    mapped_size_max              pages of logs and indexes that one shard keeps in its page tables:
                                 the kernel's cache, which tools count as memory of the process; all
                                 shards together at most an eighth of what the host grants
    share_weight                 of scarce memory (received frames, copies), connections, places in
                                 queues and stored offsets a user, before the login an address, may
                                 hold so many times what is still free: 1 leaves half to the others
    connections_max              open connections of one shard; one address before the login, and
                                 one user after it, has at most 4 x share_weight of what is free
    connections_per_address_max  of these, from one remote address (of IPv6, one network of 64 bits)
    connections_before_login_max of these, without a login: one more, and the address that has most
                                 loses its oldest; never more than half of connections_max
    login_timeout                from the connect to a successful login
    logins_waiting_max           logins of one shard that wait for the thread that hashes
    login_failures_free          failed logins in a row before a user and address have to wait
    login_backoff_min            how long they wait then; twice as long after each further failure
    login_backoff_max            but never longer than this
    login_failures_forgotten_after   a failure that is older counts for nothing
    login_failures_kept_max      pairs of user and address whose failures are remembered
    login_failures_free_per_address  failed logins of one address, under whatever name, within
                                 login_failures_forgotten_after; it is slowed down then, until it
                                 has not failed for as long
    logins_slowed_per_second     of names that have not logged in from a slowed address lately, so
                                 many are looked at by one shard; the others are refused
    logins_known_for             a user who has logged in from an address is not slowed down with it
    changes_per_second           of streams, topics, users and the like, by one user through one
                                 shard; what is more waits, and others go on meanwhile
    changes_burst                so many of them at once after a pause
    frame_timeout                from a frame's first byte to its last
    write_timeout                the window in which a client has to read what is sent to it
    read_rate_min                bytes a second that it has to take on average in that window
    request_timeout              for the answer of another shard
    slow_request                 a request that takes so long is logged, once a second, with where
                                 its time went, and counted in metrics; 0 watches nothing
    consumers_per_partition_max  stored offsets of one partition; as many again of groups
    partitions_total_max         partitions of the whole broker (slots of the board)
    heartbeat_timeout            after which a silent worker is taken for stalled
    plain_login                  passwords in clear over a listener that other hosts reach: "warn"
                                 or "refuse"
    """

    frame_size_max: Size = 128 * MIB
    control_frame_size_max: Size = 10 * MIB
    frame_size_max_before_login: Size = 8 * KIB
    response_size_max: Size = 128 * MIB
    copied_size_max: Size = 64 * MIB
    mapped_size_max: Size = 512 * MIB
    share_weight: U32 = 1
    connections_max: U32 = 10_000
    connections_per_address_max: U32 = 5_000
    connections_before_login_max: U32 = 2_000
    login_timeout: Duration = 30 * SECOND
    logins_waiting_max: U32 = 1024
    login_failures_free: U32 = 5
    login_backoff_min: Duration = SECOND
    login_backoff_max: Duration = MINUTE
    login_failures_forgotten_after: Duration = 15 * MINUTE
    login_failures_kept_max: U32 = 10_000
    login_failures_free_per_address: U32 = 100
    logins_slowed_per_second: U32 = 5
    logins_known_for: Duration = DAY
    changes_per_second: U32 = 200
    changes_burst: U32 = 2_000
    frame_timeout: Duration = 60 * SECOND
    write_timeout: Duration = 60 * SECOND
    read_rate_min: Size = 8 * KIB
    request_timeout: Duration = 2 * SECOND
    slow_request: Duration = 0
    consumers_per_partition_max: U32 = 10_000
    partitions_total_max: U32 = 16_777_216
    heartbeat_timeout: Duration = 30 * SECOND
    plain_login: PlainLogin = "warn"


class Config(Table, frozen=True, kw_only=True):
    """All settings."""

    consumer_group: ConsumerGroup = ConsumerGroup()
    data_maintenance: DataMaintenance = DataMaintenance()
    http: Http = Http()
    console: ConsoleSettings = ConsoleSettings()
    tcp: Tcp = Tcp()
    quic: Quic = Quic()
    websocket: Websocket = Websocket()
    liftbridge: Liftbridge = Liftbridge()
    message_saver: MessageSaver = MessageSaver()
    personal_access_token: PersonalAccessToken = PersonalAccessToken()
    heartbeat: Heartbeat = Heartbeat()
    telemetry: Telemetry = Telemetry()
    system: System = System()
    cluster: ClusterSettings = ClusterSettings()
    replication: Replication = Replication()
    metrics: Metrics = Metrics()
    limits: Limits = Limits()


def archives(config: Config) -> bool:
    """Whether there is an archive: of every sealed segment, or of those that retention deletes."""
    return config.data_maintenance.archiver.enabled or config.system.segment.archive_expired


def to_json(config: Config) -> bytes:
    """For the way from the supervisor to a worker. Holds the secrets in clear: never log it."""
    return msgspec.json.encode(config)


def from_json(data: bytes) -> Config:
    """The configuration that to_json() wrote."""
    return msgspec.json.decode(data, type=Config)
