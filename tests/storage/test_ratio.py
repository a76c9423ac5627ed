"""What compression saves, computed from the files of a data directory."""

from pathlib import Path

from borzoi.storage.codecs import Codec
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from borzoi.storage.ratio import Ratio, TopicRatio, ratio_lines, topic_ratios
from tests.storage.ciphers import encrypted_partition
from tests.storage.partitions import Partition

PAYLOADS = [b"%d " % number * 300 for number in range(8)]


def fill(partition: Partition, *codecs: Codec) -> list[Path]:
    """Two messages in a segment of each codec, and two in the active one."""
    for codec in codecs:
        partition.append(*PAYLOADS[:2])
        partition.log.roll()
        partition.compress(codec, block_size=1 << 20)
    partition.append(*PAYLOADS[:2])
    partition.log.close()
    return [path for path in Path(partition.directory).glob("*.log.*") if path.suffix != ".tmp"]


def test_topics_are_added_up(tmp_path: Path) -> None:
    for make in (Partition, encrypted_partition):
        root = tmp_path / make.__name__
        partition = make(root)
        files = fill(partition, Codec.ZSTD, Codec.LZ4)
        (found,) = topic_ratios(DataLayout(root), Files())
        plain = sum(64 + len(payload) for payload in PAYLOADS[:2]) * 2
        stored = sum(path.stat().st_size for path in files)
        assert found == TopicRatio(0, 0, 3, ("lz4", "zstd"), Ratio(2, plain, stored))
        assert found.compressed.ratio > 2
        *_, row, total = ratio_lines([found])
        assert row.split()[-2:] == [str(plain - stored), f"{plain / stored:.2f}"]
        assert total == f"2 compressed segments, {plain - stored} bytes saved"


def test_what_is_damaged_or_gone_saves_nothing(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    first, second = fill(partition, Codec.ZSTD, Codec.ZSTD)
    first.write_bytes(b"x" * 1000)
    (found,) = topic_ratios(DataLayout(tmp_path), Files())
    assert found.compressed.segments == 2
    assert found.compressed.saved_bytes == _saved(second)
    assert list(topic_ratios(DataLayout(tmp_path / "nothing"), Files())) == []


def _saved(path: Path) -> int:
    return sum(64 + len(payload) for payload in PAYLOADS[:2]) - path.stat().st_size
