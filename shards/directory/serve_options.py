"""What the command line tells the supervisor, beside the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ServeOptions:
    """`environ` is the environment with the dotenv file's variables: log level and root account.

    fresh                     delete the whole data directory before starting
    default_root_credentials  iggy/iggy for whatever the environment leaves open
    shares_port               others may have bound our ports: Iggy's test harness holds it while
                              it starts the server
    greets                    where everything is gets said once the broker is ready
    follower                  cluster metadata reports this node as a follower
    """

    fresh: bool = False
    default_root_credentials: bool = False
    shares_port: bool = False
    greets: bool = False
    follower: bool = False
    sources: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
