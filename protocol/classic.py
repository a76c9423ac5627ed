"""The codecs of the client generation that says 0.10.x at login: all 47 commands, one row each.

The fields of a command and of an answer stand in their classes, in the order of the wire. The
server uses the decoder of a request and the encoder of its answer, clients use the other two.
"""

from collections.abc import Mapping
from typing import Any, Final

from borzoi.protocol import commands as c
from borzoi.protocol import responses as r
from borzoi.protocol.codec import CommandCodec, OrEmpty, PayloadCodec, Row, codecs, payload_codec
from borzoi.protocol.codes import Code
from borzoi.protocol.kinds import listed
from borzoi.protocol.layout import Layouts, moved
from borzoi.protocol.responses.polled import decode_polled_messages, encode_polled_messages
from borzoi.protocol.send_messages import decode_send_messages, encode_sent_messages

LAYOUTS: Final = Layouts({r.Stats: moved(r.Stats, "cache_metrics", before="threads_count")})

ROWS: Final[Mapping[Code, Row]] = {
    Code.PING: Row(c.Ping),
    Code.GET_STATS: Row(c.GetStats, r.Stats),
    Code.GET_SNAPSHOT: Row(
        c.GetSnapshot, PayloadCodec(bytes, bytes), OrEmpty(c.GetSnapshot, c.GetSnapshot())
    ),
    Code.GET_CLUSTER_METADATA: Row(c.GetClusterMetadata, r.ClusterMetadata),
    Code.GET_ME: Row(c.GetMe, r.ClientDetails),
    Code.GET_CLIENT: Row(c.GetClient, OrEmpty(r.ClientDetails)),
    Code.GET_CLIENTS: Row(c.GetClients, listed(r.ClientInfo)),
    Code.GET_USER: Row(c.GetUser, OrEmpty(r.UserDetails)),
    Code.GET_USERS: Row(c.GetUsers, listed(r.UserInfo)),
    Code.CREATE_USER: Row(c.CreateUser, r.UserDetails),
    Code.DELETE_USER: Row(c.DeleteUser),
    Code.UPDATE_USER: Row(c.UpdateUser),
    Code.UPDATE_PERMISSIONS: Row(c.UpdatePermissions),
    Code.CHANGE_PASSWORD: Row(c.ChangePassword),
    Code.LOGIN_USER: Row(c.LoginUser, r.Identity),
    Code.LOGOUT_USER: Row(c.LogoutUser),
    Code.GET_PERSONAL_ACCESS_TOKENS: Row(c.GetPersonalAccessTokens, listed(r.TokenInfo)),
    Code.CREATE_PERSONAL_ACCESS_TOKEN: Row(c.CreatePersonalAccessToken, r.RawToken),
    Code.DELETE_PERSONAL_ACCESS_TOKEN: Row(c.DeletePersonalAccessToken),
    Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN: Row(c.LoginWithPersonalAccessToken, r.Identity),
    Code.POLL_MESSAGES: Row(
        c.PollMessages, PayloadCodec(decode_polled_messages, encode_polled_messages)
    ),
    Code.SEND_MESSAGES: Row(
        c.SendMessages, request=PayloadCodec(decode_send_messages, encode_sent_messages)
    ),
    Code.FLUSH_UNSAVED_BUFFER: Row(c.FlushUnsavedBuffer),
    Code.GET_CONSUMER_OFFSET: Row(c.GetConsumerOffset, OrEmpty(r.ConsumerOffsetInfo)),
    Code.STORE_CONSUMER_OFFSET: Row(c.StoreConsumerOffset),
    Code.DELETE_CONSUMER_OFFSET: Row(c.DeleteConsumerOffset),
    Code.GET_STREAM: Row(c.GetStream, OrEmpty(r.StreamDetails)),
    Code.GET_STREAMS: Row(c.GetStreams, listed(r.StreamInfo)),
    Code.CREATE_STREAM: Row(c.CreateStream, r.StreamInfo),
    Code.DELETE_STREAM: Row(c.DeleteStream),
    Code.UPDATE_STREAM: Row(c.UpdateStream),
    Code.PURGE_STREAM: Row(c.PurgeStream),
    Code.GET_TOPIC: Row(c.GetTopic, OrEmpty(r.TopicDetails)),
    Code.GET_TOPICS: Row(c.GetTopics, OrEmpty(listed(r.TopicInfo), without=())),
    Code.CREATE_TOPIC: Row(c.CreateTopic, r.TopicDetails),
    Code.DELETE_TOPIC: Row(c.DeleteTopic),
    Code.UPDATE_TOPIC: Row(c.UpdateTopic),
    Code.PURGE_TOPIC: Row(c.PurgeTopic),
    Code.CREATE_PARTITIONS: Row(c.CreatePartitions),
    Code.DELETE_PARTITIONS: Row(c.DeletePartitions),
    Code.DELETE_SEGMENTS: Row(c.DeleteSegments),
    Code.GET_CONSUMER_GROUP: Row(c.GetConsumerGroup, OrEmpty(r.ConsumerGroupDetails)),
    Code.GET_CONSUMER_GROUPS: Row(
        c.GetConsumerGroups, OrEmpty(listed(r.ConsumerGroupInfo), without=())
    ),
    Code.CREATE_CONSUMER_GROUP: Row(c.CreateConsumerGroup, r.ConsumerGroupInfo),
    Code.DELETE_CONSUMER_GROUP: Row(c.DeleteConsumerGroup),
    Code.JOIN_CONSUMER_GROUP: Row(c.JoinConsumerGroup),
    Code.LEAVE_CONSUMER_GROUP: Row(c.LeaveConsumerGroup),
}

CODECS: Final[Mapping[int, CommandCodec]] = codecs(LAYOUTS, ROWS)


def back_to_back(layout: type[Any]) -> PayloadCodec:
    """Values of one class back to back, as shards describe what they hold to each other."""
    return payload_codec(LAYOUTS, listed(layout))
