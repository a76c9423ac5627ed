"""The labels of metrics: which stream, topic, partition or consumer a row is about.

Ids are always among them. Names are only if the configuration asks for them: names may reveal
customers or projects, and metrics are read more widely than messages. Of a single consumer the
broker keeps a number alone; its name is known once it has named itself since the last start.
"""

from borzoi.protocol.identifiers import ConsumerKind
from borzoi.router.placement import unpack_namespace
from borzoi.shards.metrics.overview import Names, TopicPlace

Labels = tuple[str | int, ...]

KINDS = {int(ConsumerKind.CONSUMER): "consumer", int(ConsumerKind.GROUP): "group"}


class Naming:
    """Names of labels, and their values for each thing."""

    def __init__(self, names: Names | None) -> None:
        self._names = names
        named = names is not None
        self.topic: tuple[str, ...] = ("stream", "topic")
        self.codec: tuple[str, ...] = (*self.topic, "codec")
        self.partition: tuple[str, ...] = (*self.topic, "partition")
        self.consumer: tuple[str, ...] = (*self.partition, "kind", "consumer")
        if named:
            of_topic = ("stream_name", "topic_name")
            self.topic += of_topic
            self.codec += of_topic
            self.partition += of_topic
            self.consumer += (*of_topic, "consumer_name")

    def of_topic(self, stream_id: int, topic_id: int) -> Labels:
        """Returns the values of the labels of a topic."""
        return (stream_id, topic_id, *self._topic_names(stream_id, topic_id))

    def of_codec(self, stream_id: int, topic_id: int, codec: str) -> Labels:
        """Returns the values of the labels of a topic and a compression codec."""
        return (stream_id, topic_id, codec, *self._topic_names(stream_id, topic_id))

    def of_partition(self, namespace: int) -> Labels:
        """Returns the values of the labels of a partition."""
        stream_id, topic_id, partition_id = unpack_namespace(namespace)
        return (stream_id, topic_id, partition_id, *self._topic_names(stream_id, topic_id))

    def of_consumer(self, namespace: int, kind: int, consumer: int) -> Labels:
        """Returns the values of the labels of a consumer or group in a partition."""
        stream_id, topic_id, partition_id = unpack_namespace(namespace)
        ids = (stream_id, topic_id, partition_id, KINDS[kind], consumer)
        if self._names is None:
            return ids
        if kind == ConsumerKind.GROUP:
            name = self._names.groups.get((TopicPlace(stream_id, topic_id), consumer), "")
        else:
            name = self._names.consumers.get(consumer, "")
        return (*ids, *self._topic_names(stream_id, topic_id), name)

    def _topic_names(self, stream_id: int, topic_id: int) -> tuple[str, ...]:
        if self._names is None:
            return ()
        # Deleted since: then it has no name any more.
        stream = self._names.streams.get(stream_id, "")
        return stream, self._names.topics.get(TopicPlace(stream_id, topic_id), "")
