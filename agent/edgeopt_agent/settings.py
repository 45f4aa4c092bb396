"""Settings of an agent; names hold the units."""

import os
import shlex
from pathlib import Path
from typing import Literal

import msgspec

from edgeopt.errors import UsageError
from edgeopt.platform.user_folders import home_folder
from edgeopt_agent.drift.settings import DriftSettings
from edgeopt_agent.mqtt.settings import MqttSettings

MIB = 1 << 20
MAX_SOAK_S = 30 * 86_400.0
Level = Literal["debug", "info", "warning", "error"]
Tls = Literal["auto", "on", "off"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 8080
    grpc_port: int = 0
    """Port of the protocol over gRPC; 0: not served."""
    announce: bool = False
    """Whether the agent announces itself in the local network by mDNS."""
    log_level: Level = "info"
    tls: Tls = "auto"
    """auto: on any address but loopback."""
    tls_cert: Path | None = None
    """A certificate chain and its key as PEM files, instead of the agent's own."""
    tls_key: Path | None = None

    soak_s: float = 600.0
    soak_requests: int = 100
    self_request_s: float = 1.0
    """Interval between two runs of the golden inputs on a soaking release."""
    error_share: float = 0.01
    """Largest share of failed requests of a soaking release; above it, the release is taken back."""
    judged_requests: int = 20
    """Least requests, including the agent's own, before clients' failed ones take a soaking release back."""
    judged_failures: int = 3
    """Least failed requests that differ from each other: a repeated one says little about a release."""
    latency_factor: float = 3.0
    """Factor by which a candidate may be slower than its bundle says, or than its predecessor was."""
    latency_slack_ms: float = 5.0
    """Time that a candidate may take beyond `latency_factor`, because machines are noisy."""
    memory_factor: float = 2.0
    memory_slack_bytes: int = 256 * MIB
    """Bytes by which a soaking release may grow beyond `memory_factor` times its first size."""

    max_models: int = 8
    """Most models that may be served at once, including the first one."""
    keep: int = 3
    """Number of releases that stay on the disk besides the one that serves and the one before it."""
    receive_timeout_s: float = 1800.0
    fetch_from: tuple[str, ...] = ()
    """Prefixes of the URLs that the agent may fetch bundles from, such as https://host/bundles/; empty: none."""
    registry_auth: Path | None = None
    """A file with logins for registries in the form of Docker's `config.json`; None: the agent has none."""
    put_to: tuple[str, ...] = ()
    """Prefixes of the URLs to which the agent may upload a bundle that it has searched for; empty: none."""
    trials: bool = False
    """Whether clients with the role `deploy` may measure here, with `--on https://…`"""
    watch_dir: Path | None = None
    """A folder, such as that of a USB stick: a bundle with a trusted signature that appears there is deployed."""
    fetch_timeout_s: float = 21_600.0
    """Time limit of fetching a bundle, from each start of the agent on."""
    fetch_retry_s: float = 1.0
    """Delay before a download resumes; doubled after each failure without progress, up to `fetch_retry_most_s`."""
    fetch_retry_most_s: float = 60.0
    verify_timeout_s: float = 300.0
    stage_timeout_s: float = 120.0
    probe_timeout_s: float = 60.0
    switch_timeout_s: float = 90.0
    """Longer than a probe: a start inside SWITCHING has to load the release again."""
    soak_slack_s: float = 120.0
    """Time that a soak may last longer than asked before it counts as failed."""
    soak_compare_s: float = 60.0
    """Time that a soak lasts longer than asked while no request was compared with the release before."""
    rollback_timeout_s: float = 90.0
    hook_timeout_s: float = 30.0
    """Time limit of `hooks/before-commit`."""

    crashes_allowed: int = 3
    """Crashes of the serving release within `crash_window_s` of service after which the previous one serves."""
    crash_window_s: float = 60.0
    request_ends_allowed: int = 2
    """Times that the same request may end the worker of a release; then the release refuses the request."""
    restart_delay_s: float = 0.2
    """Delay before a restart, doubled after each crash up to `restart_delay_most_s`."""
    restart_delay_most_s: float = 30.0
    memory_restarts_allowed: int = 3
    """Restarts of a worker because of memory within `memory_window_s` that are allowed without a report."""
    memory_window_s: float = 600.0

    ready_timeout_s: float = 1.0
    """Time in which a worker must answer for the agent to count as ready."""
    heartbeat_s: float = 1.0
    """Interval between two checks whether a loaded worker still answers."""
    hang_timeout_s: float = 10.0
    """Time without an answer after which a worker is killed, whatever it was doing."""
    hang_latency_factor: float = 20.0
    """A run may take this many times the p99 of its release, or `hang_timeout_s` if that is longer."""

    max_bundle_bytes: int = 2048 * MIB
    disk_reserve_bytes: int = 64 * MIB
    """Bytes of the disk that stay free whatever is deployed."""
    trials_bytes: int = 8192 * MIB
    """Most bytes that one client's measurement may write: sent files, those of its run, and the cache."""
    memory_reserve_bytes: int = 128 * MIB
    """Memory that a second worker needs on top of its model; if it is not free, the old worker stops first."""

    max_body_bytes: int = 64 * MIB
    max_tensor_elements: int = 1 << 28
    worker_memory_bytes: int = 0
    """Memory limit of a worker; 0: 4 times what the bundle says, at least 1 GiB, at most 80 % of the machine."""
    queue_length: int = 64
    batch_max_size: int = 0
    """Most rows of waiting requests that a worker runs together; 0: each request alone."""
    batch_max_delay_us: int = 0
    """Time that the first request of a batch waits for others; 0: only those that wait already join it."""
    max_sequences: int = 64
    """Most sequences of a model with state that may be open at once."""
    sequence_idle_s: float = 60.0
    """A sequence without a request for this long is forgotten."""
    request_timeout_s: float = 30.0
    generation_queue_length: int = 8
    """Most requests for text that wait for a worker; further ones are refused with 429."""
    generation_timeout_s: float = 300.0
    """Time limit of one generation, and of the wait for its turn."""
    body_timeout_s: float = 30.0
    silent_call_s: float = 5.0
    """A gRPC call ends when nothing of its message has come for this long."""
    stream_idle_s: float = 60.0
    """A gRPC stream without a request for this long ends."""
    drift: DriftSettings | None = None
    """Monitoring of requests and answers for drift; None: no monitoring."""
    mqtt: MqttSettings | None = None
    """The broker of a fleet; None: the agent speaks HTTP and gRPC alone."""
    drain_s: float = 5.0
    """Time limit of a clean stop, including the requests in flight."""


SERVICE_DATA_DIR = Path("/var/lib/edgeopt")
SERVICE_USER = "edgeopt-agent"
"""The user of the service from the Debian package; other units let systemd choose one at each start."""
UNIT_FOLDERS = tuple(map(Path, ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")))
UNIT = "edgeopt-agent.service"


def on_data_dir(command: str, data_dir: Path) -> str:
    """Returns a command to copy for this agent: with `--data-dir` unless the user's shell would choose it."""
    return command if data_dir == _users_data_dir() else f"{command} --data-dir {shlex.quote(str(data_dir))}"


def default_data_dir() -> Path:
    """Returns the folder of the agent's state: systemd's choice, or the user's state folder."""
    state_dir = os.environ.get("STATE_DIRECTORY", "").split(":", 1)[0]
    found = Path(state_dir) if state_dir else _users_data_dir()
    if found is None:
        raise UsageError("This user has no home folder for the agent's state.", "Name a folder: --data-dir FOLDER")
    return found


def administers_service() -> bool:
    """Whether this user's commands, without `--data-dir`, are about the service of this machine."""
    named = os.environ.get("STATE_DIRECTORY") or os.environ.get("XDG_STATE_HOME")
    if named or os.name != "posix" or os.geteuid() != 0:
        return False
    # An image is built before the first start of the service, which makes the folder.
    return SERVICE_DATA_DIR.is_dir() or any((folder / UNIT).is_file() for folder in UNIT_FOLDERS)


def service_owner(folder: Path) -> tuple[int, int] | None:
    """Returns user and group that the service's own folder is for.

    None for another folder, and where systemd chooses the user: at the first start it gives a folder of root, with
    all that is in it, to that user.
    """
    if folder != SERVICE_DATA_DIR:
        return None
    import pwd

    try:
        found = pwd.getpwnam(SERVICE_USER)
    except KeyError:
        return None
    return found.pw_uid, found.pw_gid


def administered_data_dir() -> Path:
    """Returns the data folder for a command beside the agent: for root, the service's if there is one."""
    return SERVICE_DATA_DIR if administers_service() else default_data_dir()


def _users_data_dir() -> Path | None:
    if named := os.environ.get("XDG_STATE_HOME"):
        return Path(named) / "edgeopt"
    home = home_folder()
    return None if home is None else home / ".local" / "state" / "edgeopt"
