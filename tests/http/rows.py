"""Every endpoint as data: what is asked, in this order, and the exact answer.

`<n>` stands for a number and `<t>` for a token, which differ from run to run; everything else is
compared byte for byte, so the order of fields and the form of numbers count.
"""

import base64
from typing import Any, Final, NamedTuple

NEVER: Final = 2**64 - 1


class Row(NamedTuple):
    """A request and its answer. None: no body. "*": a body that other tests look at."""

    method: str
    path: str
    body: Any = None
    status: int = 200
    answer: str | None = None


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def error(number: int, code: str, field: str | None = None) -> str:
    named = "null" if field is None else f'"{field}"'
    return f'{{"id":{number},"code":"{code}","reason":"<r>","field":{named}}}'


NOT_FOUND: Final = '{"id":404,"code":"not_found","reason":"Resource not found","field":null}'
GLOBAL: Final = {
    name: True
    for name in (
        "manage_servers", "read_servers", "manage_users", "read_users", "manage_streams",
        "read_streams", "manage_topics", "read_topics", "poll_messages", "send_messages",
    )
}  # fmt: skip
ALL: Final = ",".join(f'"{name}":true' for name in GLOBAL)
NONE: Final = ALL.replace("true", "false")
PARTITION: Final = (
    '{"id":%d,"created_at":<n>,"segments_count":1,"current_offset":%d,"size":"%s",'
    '"messages_count":%d}'
)
TOPIC: Final = (
    '"id":0,"created_at":<n>,"name":"%s","size":"%s","message_expiry":%d,'
    '"compression_algorithm":"%s","max_topic_size":%d,"replication_factor":1,'
    '"messages_count":%d,"partitions_count":%d'
)


def topic(
    name: str = "t", size: str = "0 B", messages: int = 0, partitions: int = 2, codec: str = "none"
) -> str:
    return TOPIC % (name, size, NEVER, codec, NEVER, messages, partitions)


def message(offset: int, payload: bytes, number: str = "<n>", headers: str = "[]") -> str:
    size = 0 if headers == "[]" else 15
    return (
        f'{{"header":{{"checksum":<n>,"id":{number},"offset":{offset},"timestamp":<n>,'
        f'"origin_timestamp":<n>,"user_headers_length":{size},"payload_length":{len(payload)},'
        f'"reserved":0}},"payload":"{b64(payload)}","user_headers":{headers}}}'
    )


HEADERS: Final = [
    {
        "key": {"kind": "string", "value": b64(b"k")},
        "value": {"kind": "uint32", "value": b64(b"\1\0\0\0")},
    }
]
HEADERS_TEXT: Final = (
    '[{"key":{"kind":"string","value":"aw=="},"value":{"kind":"uint32","value":"AQAAAA=="}}]'
)
TO_PARTITION_0: Final = {"kind": "partition_id", "value": b64(bytes(4))}
IN_S: Final = "/streams/s/topics/t"

SYSTEM: Final = (
    Row("GET", "/", answer="Iggy API"),
    Row("GET", "/ping", answer="pong"),
    Row("GET", "/healthz", answer="ok"),
    Row("GET", "/readyz", answer="ready"),
    Row("GET", "/metrics", answer="*"),
    Row("GET", "/stats", answer="*"),
    Row("GET", "/clients", answer="[]"),
    Row("GET", "/clients/0", None, 400, error(101, "invalid_client_id")),
    Row("GET", "/clients/7", None, 404, NOT_FOUND),
    Row("GET", "/clients/x", None, 400, "client_id is 'x', which is no number of 0 to 4294967295"),
    Row(
        "GET", "/cluster/metadata",
        answer='{"name":"single-node","nodes":[{"name":"iggy-node","ip":"127.0.0.1","endpoints":'
        '{"tcp":<n>,"quic":<n>,"http":<n>,"websocket":<n>},"role":"leader","status":"healthy"}]}',
    ),
    Row("POST", "/snapshot", {"compression": "Stored", "snapshot_types": ["Test"]}, answer="*"),
    Row(
        "POST", "/snapshot", {"compression": "Stored", "snapshot_types": ["All", "Test"]},
        400, error(3, "invalid_command"),
    ),
    Row("POST", "/snapshot", {"compression": "Best"}, 422, "*"),
    Row("GET", "/options/topic", answer="*"),
    Row("GET", "/options/stream", answer="[]"),
    Row("GET", "/options/user", answer="[]"),
    Row("GET", "/options/server", None, 400, "scope is 'server': needs one of topic, stream, user"),
    Row("GET", "/nothing", None, 404, "there is nothing at this path"),
    Row("PATCH", "/streams", None, 405, "PATCH is not allowed here"),
)  # fmt: skip

USERS: Final = (
    Row("GET", "/users", answer='[{"id":0,"created_at":<n>,"status":"active","username":"iggy"}]'),
    Row(
        "GET", "/users/0",
        answer='{"id":0,"created_at":<n>,"status":"active","username":"iggy","permissions":'
        f'{{"global":{{{ALL}}},"streams":null}}}}',
    ),
    Row("GET", "/users/none", None, 404, NOT_FOUND),
    Row(
        "POST", "/users", {"username": "ann", "password": "secret", "status": "active"},
        answer='{"id":1,"created_at":<n>,"status":"active","username":"ann","permissions":null}',
    ),
    Row(
        "POST", "/users", {"username": "ann", "password": "secret"},
        400, error(46, "user_already_exists", "username"),
    ),
    Row("POST", "/users", {"username": "a", "password": "secret"}, 400, error(43, "invalid_username")),
    Row("POST", "/users", {"username": "bob", "password": "x"}, 400, error(44, "invalid_password")),
    Row("POST", "/users", {"username": "bob"}, 422, "*"),
    Row("PUT", "/users/ann", {"username": "eve", "status": "inactive"}, 204),
    Row("PUT", "/users/eve", {"username": None, "status": "active"}, 204),
    Row("PUT", "/users/9", {"status": "active"}, 404, error(20, "resource_not_found")),
    Row(
        "PUT", "/users/eve/permissions",
        {"permissions": {
            "global": dict.fromkeys(GLOBAL, False),
            "streams": {"7": {
                "manage_stream": False, "read_stream": True, "manage_topics": False,
                "read_topics": False, "poll_messages": True, "send_messages": False,
                "topics": {"3": {
                    "manage_topic": True, "read_topic": False, "poll_messages": False,
                    "send_messages": True,
                }},
            }},
        }},
        204,
    ),
    Row(
        "GET", "/users/eve",
        answer='{"id":1,"created_at":<n>,"status":"active","username":"eve","permissions":'
        f'{{"global":{{{NONE}}},"streams":{{"7":{{"manage_stream":false,"read_stream":true,'
        '"manage_topics":false,"read_topics":false,"poll_messages":true,"send_messages":false,'
        '"topics":{"3":{"manage_topic":true,"read_topic":false,"poll_messages":false,'
        '"send_messages":true}}}}}}',
    ),
    Row("PUT", "/users/eve/permissions", {"permissions": None}, 204),
    Row("PUT", "/users/0/permissions", {"permissions": None}, 400, error(49, "cannot_change_permissions")),
    Row("PUT", "/users/eve/permissions", {"permissions": {"global": {}}}, 422, "*"),
    Row("PUT", "/users/eve/password", {"current_password": "secret", "new_password": "other"}, 204),
    Row(
        "PUT", "/users/eve/password", {"current_password": "wrong", "new_password": "other"},
        400, error(42, "invalid_credentials"),
    ),
    Row("DELETE", "/users/eve", None, 204),
    Row("DELETE", "/users/eve", None, 404, error(20, "resource_not_found")),
    Row("DELETE", "/users/0", None, 400, error(48, "cannot_delete_user")),
    Row("GET", "/personal-access-tokens", answer="[]"),
    Row("POST", "/personal-access-tokens", {"name": "one", "expiry": 0}, answer='{"token":"<t>"}'),
    Row("POST", "/personal-access-tokens", {"name": "one", "expiry": 0}, 400, error(51, "personal_access_token_already_exists", "name")),
    Row("POST", "/personal-access-tokens", {"name": "x", "expiry": 0}, 400, error(50, "invalid_personal_access_token_name")),
    Row("POST", "/personal-access-tokens", {"name": "123", "expiry": 60_000_000}, answer='{"token":"<t>"}'),
    Row(
        "GET", "/personal-access-tokens",
        answer='[{"name":"123","expiry_at":<n>},{"name":"one","expiry_at":null}]',
    ),
    Row("DELETE", "/personal-access-tokens/123", None, 204),
    Row("DELETE", "/personal-access-tokens/one", None, 204),
    Row("DELETE", "/personal-access-tokens/one", None, 404, error(20, "resource_not_found")),
    Row("POST", "/personal-access-tokens/login", {"token": "none"}, 404, error(20, "resource_not_found")),
    Row("POST", "/users/refresh-token", {"token": "none"}, 401, error(78, "invalid_access_token")),
    Row("POST", "/users/login", {"username": "iggy", "password": "no"}, 400, error(42, "invalid_credentials")),
    Row("POST", "/users/login", {"username": "iggy", "password": "wrong"}, 400, error(42, "invalid_credentials")),
    Row("POST", "/users/login", {"username": "iggy"}, 422, "*"),
    Row(
        "POST", "/users/login",
        {"username": "iggy", "password": "iggy", "version": "0.8.0", "context": None},
        answer='{"user_id":0,"access_token":{"token":"<t>","expiry":<n>}}',
    ),
)  # fmt: skip

STREAMS: Final = (
    Row("GET", "/streams", answer="[]"),
    Row(
        "POST", "/streams", {"name": "s", "unknown": 1},
        answer='{"id":0,"created_at":<n>,"name":"s","size":"0 B","messages_count":0,'
        '"topics_count":0,"topics":[]}',
    ),
    Row("POST", "/streams", {"name": "s"}, 400, error(1012, "stream_name_already_exists", "name")),
    Row("POST", "/streams", {"name": ""}, 400, error(1013, "invalid_stream_name", "name")),
    Row("POST", "/streams", {"name": "x" * 256}, 400, error(1013, "invalid_stream_name", "name")),
    Row("POST", "/streams", {}, 422, "*"),
    Row("POST", "/streams", b"{", 400, "*"),
    Row("GET", "/streams/9", None, 404, NOT_FOUND),
    Row("GET", "/streams/none", None, 404, NOT_FOUND),
    Row("GET", f"/streams/{'x' * 256}", None, 400, error(6, "invalid_identifier")),
    Row("PUT", "/streams/0", {"name": "s2"}, 204),
    Row("PUT", "/streams/s2", {"name": "s"}, 204),
    Row("PUT", "/streams/9", {"name": "x"}, 404, error(1009, "stream_id_not_found", "stream_id")),
    Row("GET", "/streams/s/topics", answer="[]"),
    Row("GET", "/streams/9/topics", None, 404, NOT_FOUND),
    Row(
        "POST", "/streams/s/topics",
        {"name": "t", "partitions_count": 2, "compression_algorithm": "none",
         "message_expiry": NEVER, "max_topic_size": NEVER, "replication_factor": None},
        answer=f'{{{topic()},"partitions":['
        f'{PARTITION % (0, 0, "0 B", 0)},{PARTITION % (1, 0, "0 B", 0)}]}}',
    ),
    Row("POST", "/streams/s/topics", {"name": "t", "partitions_count": 1}, 400, error(2013, "topic_name_already_exists", "name")),
    Row("POST", "/streams/9/topics", {"name": "t", "partitions_count": 1}, 404, NOT_FOUND),
    Row("POST", "/streams/s/topics", {"name": "u", "partitions_count": 1001}, 400, error(2015, "too_many_partitions")),
    Row("POST", "/streams/s/topics", {"name": "", "partitions_count": 1}, 400, error(2014, "invalid_topic_name", "name")),
    Row("POST", "/streams/s/topics", {"name": "u", "partitions_count": 1, "replication_factor": 0}, 400, error(2018, "invalid_replication_factor")),
    Row("POST", "/streams/s/topics", {"name": "u", "partitions_count": 1, "max_topic_size": 1}, 400, error(1019, "invalid_topic_size")),
    Row("POST", "/streams/s/topics", {"name": "u", "partitions_count": -1}, 422, "*"),
    Row("POST", "/streams/s/topics", {"name": "u", "partitions_count": 1, "message_expiry": 2**64}, 422, "*"),
    Row("POST", "/streams/s/topics", {"name": "u", "partitions_count": 1, "compression_algorithm": "rar"}, 422, "*"),
    Row("POST", "/streams/s/topics", {"name": "u", "partitions_count": 1, "options": {"best": "yes"}}, 400, error(4041, "unsupported_option_key")),
    Row("GET", "/streams/s/topics", answer=f"[{{{topic()}}}]"),
    Row("GET", "/streams/s/topics/x", None, 404, NOT_FOUND),
    Row("GET", "/streams/x/topics/t", None, 404, NOT_FOUND),
    Row("PUT", IN_S, {"name": "t2", "compression_algorithm": "gzip", "message_expiry": 0, "max_topic_size": 0}, 204),
    Row("GET", "/streams/s/topics", answer=f'[{{{topic("t2", codec="gzip")}}}]'),
    Row("PUT", "/streams/s/topics/t2", {"name": "t", "compression_algorithm": None, "options": {}}, 204),
    Row("GET", "/streams/s/topics", answer=f'[{{{topic(codec="gzip")}}}]'),
    Row("PUT", "/streams/s/topics/x", {"name": "y"}, 404, error(2010, "topic_id_not_found", "topic_id")),
    Row("POST", f"{IN_S}/partitions", {"partitions_count": 1}, 201),
    Row("POST", f"{IN_S}/partitions", {"partitions_count": 0}, 400, error(2015, "too_many_partitions")),
    Row("POST", f"{IN_S}/partitions", {"partitions_count": 1001}, 400, error(2015, "too_many_partitions")),
    Row("DELETE", f"{IN_S}/partitions?partitions_count=1", None, 204),
    Row("DELETE", f"{IN_S}/partitions?partitions_count=1001", None, 400, error(2015, "too_many_partitions")),
    Row("DELETE", f"{IN_S}/partitions?partitions_count=9", None, 400, error(2019, "invalid_partitions_count")),
    Row("DELETE", f"{IN_S}/partitions", None, 400, "*"),
    Row("DELETE", f"{IN_S}/partitions?partitions_count=x", None, 400, "*"),
)  # fmt: skip

MESSAGES: Final = (
    Row(
        "POST", f"{IN_S}/messages",
        {"partitioning": TO_PARTITION_0,
         "messages": [{"payload": b64(b"one")},
                      {"payload": b64(b"\xff"), "id": 7, "user_headers": HEADERS}]},
        201,
    ),
    Row(
        "POST", f"{IN_S}/messages",
        {"partitioning": TO_PARTITION_0,
         "messages": [{"payload": b64(b"big"), "id": str(2**128 - 1), "user_headers": None},
                      {"payload": b64(b"hex"), "id": "0" * 31 + "f", "user_headers": b64(b"raw")}]},
        201,
    ),
    Row(
        "GET", f"{IN_S}/messages?partition_id=0&kind=offset&value=0&count=2",
        answer='{"partition_id":0,"current_offset":3,"count":2,"messages":['
        f"{message(0, b'one')},{message(1, bytes([255]), '7', HEADERS_TEXT)}]}}",
    ),
    Row(
        "GET", f"{IN_S}/messages?kind=last&count=2",
        answer='{"partition_id":0,"current_offset":3,"count":2,"messages":['
        + message(2, b"big", str(2**128 - 1))
        + ","
        + message(3, b"hex", "15", '"cmF3"').replace("_length\":15", "_length\":3", 1)
        + "]}",
    ),
    Row("GET", f"{IN_S}/messages?kind=first&count=0", answer='{"partition_id":0,"current_offset":3,"count":0,"messages":[]}'),
    Row("GET", f"{IN_S}/messages?partition_id=1", answer='{"partition_id":1,"current_offset":0,"count":0,"messages":[]}'),
    Row("GET", f"{IN_S}/messages?partition_id=9", None, 404, error(3007, "partition_not_found", "partition_id")),
    Row("GET", "/streams/9/topics/t/messages", None, 404, error(1009, "stream_id_not_found", "stream_id")),
    Row("GET", f"{IN_S}/messages?kind=best", None, 400, "*"),
    Row("GET", f"{IN_S}/messages?count=many", None, 400, "*"),
    Row("POST", f"{IN_S}/messages", {"partitioning": TO_PARTITION_0, "messages": []}, 400, error(4009, "invalid_messages_count")),
    Row("POST", f"{IN_S}/messages", {"partitioning": TO_PARTITION_0, "messages": [{"payload": ""}]}, 400, error(4025, "invalid_message_payload_length")),
    Row("POST", f"{IN_S}/messages", {"partitioning": TO_PARTITION_0, "messages": [{"id": 1}]}, 422, "*"),
    Row("POST", f"{IN_S}/messages", {"partitioning": TO_PARTITION_0, "messages": [{"payload": "YQ==", "id": None}]}, 422, "*"),
    Row("POST", f"{IN_S}/messages", {"partitioning": TO_PARTITION_0, "messages": [{"payload": "YQ==", "id": 2**64}]}, 422, "*"),
    Row("POST", f"{IN_S}/messages", {"partitioning": TO_PARTITION_0, "messages": [{"payload": "YQ==", "id": "x"}]}, 422, "*"),
    Row("POST", f"{IN_S}/messages", {"partitioning": TO_PARTITION_0, "messages": [{"payload": "?"}]}, 422, "*"),
    Row("POST", f"{IN_S}/messages", {"partitioning": TO_PARTITION_0, "messages": [], "more": 1}, 422, "*"),
    Row("POST", f"{IN_S}/messages", {"partitioning": {"kind": "messages_key", "value": ""}, "messages": [{"payload": "YQ=="}]}, 400, error(4028, "invalid_key_value_length")),
    Row("POST", f"{IN_S}/messages", {"partitioning": {"kind": "partition_id", "value": b64(b"\x09\0\0\0")}, "messages": [{"payload": "YQ=="}]}, 404, error(3007, "partition_not_found", "partition_id")),
    Row("GET", f"{IN_S}/messages/flush/0/true"),
    Row("GET", f"{IN_S}/messages/flush/0/fsync=false?partition_id=0&fsync=false"),
    Row("GET", f"{IN_S}/messages/flush/0/maybe", None, 400, "*"),
    Row("GET", f"{IN_S}/messages/flush/x/true", None, 400, "*"),
    Row("GET", f"{IN_S}/messages/flush/9/true", None, 404, error(3007, "partition_not_found", "partition_id")),
)  # fmt: skip

CONSUMERS: Final = (
    Row("GET", f"{IN_S}/consumer-offsets?consumer_id=1&partition_id=0", None, 404, NOT_FOUND),
    Row("GET", "/streams/s/topics/x/consumer-offsets", None, 404, error(2010, "topic_id_not_found", "topic_id")),
    Row("PUT", f"{IN_S}/consumer-offsets", {"consumer_id": "1", "partition_id": 0, "offset": 2}, 204),
    Row("GET", f"{IN_S}/consumer-offsets?consumer_id=1", answer='{"partition_id":0,"current_offset":3,"stored_offset":2}'),
    Row("GET", f"{IN_S}/messages?kind=next&count=1", answer=f'{{"partition_id":0,"current_offset":3,"count":1,"messages":[{message(3, b"hex", "15", chr(34) + "cmF3" + chr(34)).replace("_length" + chr(34) + ":15", "_length" + chr(34) + ":3", 1)}]}}'),
    Row("PUT", f"{IN_S}/consumer-offsets", {"consumer_id": 1, "partition_id": None, "offset": 4}, 400, error(4100, "invalid_offset", "offset")),
    Row("PUT", f"{IN_S}/consumer-offsets", {"partition_id": 1, "offset": 0}, 400, error(4100, "invalid_offset", "offset")),
    Row("PUT", f"{IN_S}/consumer-offsets", {"partition_id": 9, "offset": 0}, 404, error(3007, "partition_not_found", "partition_id")),
    Row("DELETE", f"{IN_S}/consumer-offsets/1?partition_id=0", None, 204),
    Row("DELETE", f"{IN_S}/consumer-offsets/1", None, 404, error(3021, "consumer_offset_not_found")),
    Row("GET", f"{IN_S}/consumer-groups", answer="[]"),
    Row("POST", f"{IN_S}/consumer-groups", {"name": "g"}, 201, '{"id":0,"name":"g","partitions_count":2,"members_count":0,"members":[]}'),
    Row("POST", f"{IN_S}/consumer-groups", {"name": "g"}, 400, error(5004, "consumer_group_name_already_exists", "name")),
    Row("POST", f"{IN_S}/consumer-groups", {"name": ""}, 400, error(5005, "invalid_consumer_group_name")),
    Row("GET", f"{IN_S}/consumer-groups", answer='[{"id":0,"name":"g","partitions_count":2,"members_count":0}]'),
    Row("GET", f"{IN_S}/consumer-groups/g", answer='{"id":0,"name":"g","partitions_count":2,"members_count":0,"members":[]}'),
    Row("GET", f"{IN_S}/consumer-groups/x", None, 404, error(5000, "consumer_group_id_not_found")),
    Row("GET", "/streams/x/topics/t/consumer-groups", None, 404, error(1009, "stream_id_not_found", "stream_id")),
    Row("DELETE", f"{IN_S}/consumer-groups/0", None, 204),
    Row("DELETE", f"{IN_S}/consumer-groups/0", None, 404, error(5000, "consumer_group_id_not_found")),
)  # fmt: skip

ENDS: Final = (
    Row("GET", "/streams/s", answer=f'{{"id":0,"created_at":<n>,"name":"s","size":"284 B","messages_count":4,"topics_count":1,"topics":[{{{topic(size="284 B", messages=4, codec="gzip")}}}]}}'),
    Row("DELETE", f"{IN_S}/partitions/0?segments_count=1", None, 204),
    Row("DELETE", f"{IN_S}/partitions/0", None, 400, "*"),
    Row("DELETE", f"{IN_S}/partitions/9?segments_count=1", None, 404, error(3007, "partition_not_found", "partition_id")),
    Row("DELETE", f"{IN_S}/purge", None, 204),
    Row("GET", IN_S, answer=f'{{{topic(codec="gzip")},"partitions":[{PARTITION % (0, 0, "0 B", 0)},{PARTITION % (1, 0, "0 B", 0)}]}}'),
    Row("DELETE", "/streams/s/purge", None, 204),
    Row("DELETE", IN_S, None, 204),
    Row("DELETE", IN_S, None, 404, error(2010, "topic_id_not_found", "topic_id")),
    Row("DELETE", "/streams/s", None, 204),
    Row("DELETE", "/streams/s", None, 404, error(1009, "stream_id_not_found", "stream_id")),
)  # fmt: skip

ROWS: Final = (*SYSTEM, *USERS, *STREAMS, *MESSAGES, *CONSUMERS, *ENDS)
