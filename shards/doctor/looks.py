"""What the doctor looks at: this machine, its limits, the disk, the clock, the ports, the data.

Each look is a function from the configuration to findings. Always: what is written to measure the
disk is one small file without a name, gone when it is closed. A running broker is left alone.
"""

import fcntl
import os
import platform
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from borzoi import __version__
from borzoi.protocol.batch import LOOPS
from borzoi.quantities import GIB, MIB
from borzoi.router.processor import UnorderedProcessor, check_processor
from borzoi.shards.config import Config, ConfigError
from borzoi.shards.doctor.finding import Finding, Verdict, judged
from borzoi.shards.host.cpus import read_numa_topology, resolve_cpus
from borzoi.shards.host.file_limits import share
from borzoi.shards.host.memory import granted_memory, memory_budget_per_shard
from borzoi.shards.listening.free_doors import door_problem
from borzoi.shards.settings.open_doors import open_doors
from borzoi.storage.files import Files
from borzoi.storage.info import UnknownDataFormat, read_info
from borzoi.storage.layout import DataLayout

FREE_MIN: Final = GIB
FILES_MIN: Final = 65_536
SYNC_SLOW_MS: Final = 20.0
SYNCS: Final = 5
THIS_CODE_S: Final = 1_763_424_000
"""No clock may be before it: November 2025."""
SHARED_OR_LOST: Final = {
    "nfs": "the locks and syncs of a network file system cannot be relied on",
    "nfs4": "the locks and syncs of a network file system cannot be relied on",
    "cifs": "the locks and syncs of a network file system cannot be relied on",
    "tmpfs": "it is memory: everything is lost with the machine's next start",
    "overlay": "it is a layer of a container: everything is lost with the container",
}
GOOD_CLOCKS: Final = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page")


def look_at_program(_config: Config) -> Iterator[Finding]:
    """Python and the compiled loops."""
    version = platform.python_version()
    yield judged(
        "program",
        f"borzoi {__version__} on Python {version}",
        "Python 3.11 or newer",
        fine=sys.version_info >= (3, 11),
        remedy="install a newer Python and name it in BORZOI_PYTHON",
        stops=True,
    )
    yield judged(
        "loops",
        LOOPS,
        "compiled",
        fine=LOOPS == "compiled",
        remedy="install a C compiler and Python's headers (Debian: gcc python3-dev), then borzoi"
        " again; in a checkout remove .venv before",
    )


def look_at_host(config: Config) -> Iterator[Finding]:
    """Processor, CPUs and memory."""
    usable = sorted(os.sched_getaffinity(0))
    text = config.system.sharding.cpu_allocation
    try:
        placement = resolve_cpus(text, usable, read_numa_topology())
        shards = len(placement.cpus)
        check_processor(platform.machine(), shards, compiled=False)
        memory = granted_memory()
        budget = memory_budget_per_shard(config, shards, memory)
    except (ConfigError, UnorderedProcessor) as error:
        yield Finding("host", Verdict.BAD, f"{error}", "a machine that fits the settings")
        return
    yield Finding(
        "host",
        Verdict.FINE,
        f"{platform.machine()}, {len(usable)} CPUs, {shards} shards",
        "x86-64 for more than one shard",
    )
    yield Finding(
        "memory",
        Verdict.FINE,
        f"{memory // MIB} MiB, {budget // MIB} MiB of buffers for each shard",
        "twice the largest frame for each shard",
    )


def look_at_limits(config: Config) -> Iterator[Finding]:
    """Descriptors of a process."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    granted = FILES_MIN if hard == resource.RLIM_INFINITY else hard
    connections = min(share(granted).connections, config.limits.connections_max)
    yield judged(
        "open files",
        f"{granted}, enough for {connections} connections",
        f"{FILES_MIN}",
        fine=granted >= FILES_MIN,
        remedy=f"ulimit -Hn {FILES_MIN}, or LimitNOFILE={FILES_MIN} in the unit",
    )


def look_at_data(config: Config) -> Iterator[Finding]:
    """The data directory, and what is in it."""
    data = Path(config.system.path).absolute()
    needed = "a directory that this user may write, or a place for it"
    if not data.exists():
        there = data.parent.is_dir() and os.access(data.parent, os.W_OK)
        yield judged(
            "data directory",
            f"{data} does not exist yet",
            needed,
            fine=there,
            remedy=f"make {data.parent} and let this user write there, or set IGGY_SYSTEM_PATH",
            stops=True,
        )
        return
    if not (data.is_dir() and os.access(data, os.R_OK | os.W_OK | os.X_OK)):
        remedy = f"chown or chmod {data}, or set IGGY_SYSTEM_PATH"
        yield Finding("data directory", Verdict.BAD, f"{data} is not ours", needed, remedy)
        return
    system = config.system
    layout = DataLayout(data, system.stream.path, system.topic.path, system.partition.path)
    try:
        read_info(layout, Files())
    except UnknownDataFormat as error:
        remedy = "use the version of borzoi that wrote it"
        yield Finding("data directory", Verdict.BAD, f"{error}", needed, remedy)
        return
    used = " in use by a running broker" if is_locked(data) else ""
    yield Finding("data directory", Verdict.FINE, f"{data}{used}", needed)


def look_at_disk(config: Config) -> Iterator[Finding]:
    """Free space, the kind of file system, and how long a sync takes."""
    place = _existing(Path(config.system.path).absolute())
    free = shutil.disk_usage(place).free
    yield judged(
        "disk space",
        f"{free / GIB:.1f} GiB free at {place}",
        f"{FREE_MIN // GIB} GiB",
        fine=free >= FREE_MIN,
        remedy="free some, or set a smaller retention (topic's size and expiry)",
    )
    kind = _file_system(place)
    yield judged(
        "file system",
        kind,
        "a local one that keeps what it was given",
        fine=kind not in SHARED_OR_LOST,
        remedy=f"{SHARED_OR_LOST.get(kind, '')}; put IGGY_SYSTEM_PATH on a disk or a volume",
    )
    if os.access(place, os.W_OK):
        took_ms = _sync_ms(place)
        yield judged(
            "sync",
            f"{took_ms:.1f} ms",
            f"below {SYNC_SLOW_MS:.0f} ms",
            fine=took_ms < SYNC_SLOW_MS,
            remedy="durability `fsync` waits so long for each group of sends: use a faster disk,"
            " or durability `written`",
        )


def look_at_clock(_config: Config) -> Iterator[Finding]:
    """The time of day, and what the kernel takes it from."""
    now = time.time()
    yield judged(
        "clock",
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
        "the time of day",
        fine=now > THIS_CODE_S,
        remedy="set the clock, by chrony or systemd-timesyncd",
    )
    path = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    source = path.read_text().strip() if path.exists() else "unknown"
    yield judged(
        "clock source",
        source,
        f"one that is read without a system call: {', '.join(GOOD_CLOCKS)}",
        fine=source in GOOD_CLOCKS or source == "unknown",
        remedy="write tsc into current_clocksource, if available_clocksource has it",
    )


def look_at_doors(config: Config) -> Iterator[Finding]:
    """The ports."""
    if is_locked(Path(config.system.path)):
        yield Finding("ports", Verdict.FINE, "a running broker has them", "free ports")
        return
    for name, address in open_doors(config).items():
        problem = door_problem(name, address)
        yield judged(
            f"port of {name}",
            f"{address} is free" if problem is None else f"{address} is taken",
            "a free port",
            fine=problem is None,
            remedy=problem or "",
            stops=True,
        )


def is_locked(data: Path) -> bool:
    """Whether a broker holds the directory."""
    try:
        fd = os.open(data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _existing(path: Path) -> Path:
    return next(one for one in (path, *path.parents) if one.exists())


def _file_system(path: Path) -> str:
    """The kind of the mount that a path lies on; of nested ones the deepest."""
    best, kind = -1, "unknown"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        mount = fields[4].replace("\\040", " ")
        if path.is_relative_to(mount) and len(mount) >= best:
            best, kind = len(mount), fields[fields.index("-") + 1]
    return kind


def _sync_ms(place: Path) -> float:
    """The median of a few small writes."""
    took = []
    with tempfile.TemporaryFile(dir=place) as file:
        for _ in range(SYNCS):
            began = time.perf_counter()
            file.write(b"\0" * 4096)
            file.flush()
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - began) * 1000)
    return sorted(took)[SYNCS // 2]
