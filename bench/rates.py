"""What a run reached as a whole: requests, messages and bytes per second, and the CPU time.

Pure functions over a LoadResult. Used where one figure per run is wanted: limits, targets,
sweeps. The full report of a kind is made in report.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from borzoi.bench.load import LoadResult
from borzoi.bench.quantities import NS_PER_S, NS_PER_US
from borzoi.bench.usage import cpu_ns_between, foreign_share


@dataclass(frozen=True, slots=True)
class Rate:
    """Over all actors, from the common start to the last answer. CPU shares are of one core.

    `foreign_cpu_share` is what programs that have nothing to do with the run took meanwhile.
    """

    seconds: float
    requests: int
    messages: int
    user_bytes: int
    generator_cpu_share: float
    server_cpu_ns: float
    foreign_cpu_share: float = 0.0
    variant: str = ""

    @property
    def requests_per_s(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds

    @property
    def messages_per_s(self) -> float:
        """Messages per second."""
        return self.messages / self.seconds

    @property
    def bytes_per_s(self) -> float:
        """Bytes of payloads and headers per second."""
        return self.user_bytes / self.seconds

    @property
    def server_cpu_share(self) -> float:
        """How many cores the server used."""
        return self.server_cpu_ns / NS_PER_S / self.seconds

    @property
    def server_us_per_request(self) -> float:
        """CPU time of the server per request."""
        return self.server_cpu_ns / NS_PER_US / max(1, self.requests)

    @property
    def server_us_per_message(self) -> float:
        """CPU time of the server per message."""
        return self.server_cpu_ns / NS_PER_US / max(1, self.messages)

    def as_json(self) -> dict[str, object]:
        """Returns the members of a JSON object."""
        return {
            "seconds": self.seconds,
            "requests_per_s": self.requests_per_s,
            "messages_per_s": self.messages_per_s,
            "bytes_per_s": self.bytes_per_s,
            "server_us_per_request": self.server_us_per_request,
            "server_cpu_share": self.server_cpu_share,
            "generator_cpu_share": self.generator_cpu_share,
            "foreign_cpu_share": self.foreign_cpu_share,
            "variant": self.variant,
        }


def rate_of(result: LoadResult, servers: Sequence[str], variant: str = "") -> Rate:
    """`servers` are the names of the watched processes that did the serving."""
    actors = [actor for actor in result.actors if actor.ends]
    began = min((actor.started_ns for actor in actors), default=0)
    ended = max((actor.ended_ns for actor in actors), default=1)
    return Rate(
        seconds=max(1, ended - began) / NS_PER_S,
        requests=sum(len(actor.ends) // 8 for actor in actors),
        messages=sum(sum(memoryview(actor.messages).cast("q")) for actor in actors),
        user_bytes=sum(sum(memoryview(actor.user_bytes).cast("q")) for actor in actors),
        generator_cpu_share=result.generator_cpu_share,
        server_cpu_ns=sum(cpu_ns_between(result.samples, name, began, ended) for name in servers),
        foreign_cpu_share=foreign_share(result.samples, began, ended),
        variant=variant,
    )
