"""The options that hold for topics which do not say otherwise, from the configuration."""

from borzoi.shards.decisions.topic_options import DURABILITIES, TopicDefaults
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.settings.schema import Config


def topic_defaults(config: Config) -> TopicDefaults:
    """What the configuration says."""
    system = config.system
    is_synced = Durability(system.partition.durability) is Durability.FSYNC
    return TopicDefaults(
        message_expiry=system.topic.message_expiry,
        max_topic_size=system.topic.max_size,
        segment_size=system.segment.size,
        durability=DURABILITIES[is_synced],
        messages_to_save=system.partition.messages_required_to_save,
        size_to_save=system.partition.size_of_messages_required_to_save,
    )
