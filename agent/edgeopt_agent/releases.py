"""The releases on the disk: checked bundles, each under the first digits of its manifest's digest."""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, get_args

import msgspec

from edgeopt import units
from edgeopt.bundle.deployment import FILE as DEPLOYMENT
from edgeopt.bundle.deployment import Deployment, read_deployment
from edgeopt.bundle.manifest import FILE as MANIFEST
from edgeopt.bundle.manifest import file_digest
from edgeopt.errors import DiskFullError, EdgeoptError
from edgeopt.fleet.records import Release
from edgeopt_agent.data_dir import DataDir, pointed, remove
from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.refused import RefusedError

KEPT_LOGS = 20
Standing = Literal["serving", "previous", "kept", "rolled back", "quarantined", "refused"]


def deployment_of(folder: Path) -> Deployment:
    return read_deployment(folder / DEPLOYMENT)


def model_bytes(folder: Path) -> int:
    """Returns the size of everything that a worker may load."""
    return sum(path.stat().st_size for path in (folder / "model").rglob("*") if path.is_file())


def prune(data: DataDir, garbage: set[str]) -> None:
    """Removes the releases that the journal names as garbage, unless one of the links leads to them."""
    for name in garbage - {pointed(data.current), pointed(data.previous)}:
        remove(data.release(name))


def prune_logs(data: DataDir) -> None:
    """Removes all but the newest logs of workers: there is one for every release that was ever tried."""
    times = {}
    for log in data.logs.glob("*.log"):
        with suppress(FileNotFoundError):  # others may tidy up there too
            times[log] = log.stat().st_mtime_ns
    for log in sorted(times, key=times.__getitem__, reverse=True)[KEPT_LOGS:]:
        remove(log)


def check_space(data: DataDir, bundle_bytes: int, reserve_bytes: int, here_bytes: int = 0) -> None:
    """Raises RefusedError when a bundle does not fit on the disk, twice: as it is sent, and unpacked.

    `here_bytes` of it are on the disk already.
    """
    free = shutil.disk_usage(data.root).free
    needed = 2 * bundle_bytes - here_bytes
    if free < needed + reserve_bytes:
        raise RefusedError(
            507,
            DiskFullError.code,
            f"The disk of the agent's data folder '{data.root}' is too full: {units.size(free)} are free. "
            f"The bundle of {units.size(bundle_bytes)} needs {units.size(needed)}, packed and unpacked, "
            f"and {units.size(reserve_bytes)} stay free (`disk_reserve_bytes`).",
            "Free some space there, keep fewer releases (`keep`), or make the bundle smaller.",
        )


def list_releases(data: DataDir, failed: dict[str, Record], refused: Sequence[Record]) -> list[Release]:
    """Returns the releases on the disk, the failed and refused ones, and bundles that were sent but not kept."""
    current, previous = pointed(data.current), pointed(data.previous)
    found = []
    for name in sorted(data.release_names()):
        standing: Standing = "serving" if name == current else "previous" if name == previous else "kept"
        found.append(
            msgspec.structs.replace(_described(data.release(name), standing), pinned=(data.pins / name).exists())
        )
    listed = {release.id for release in found}
    for name, record in failed.items():
        if name not in listed:
            found.append(_of_record(record, "quarantined"))
    found += [
        _of_record(record, "rolled back" if record.going_back else "refused")
        for record in refused
        if record.release not in failed
    ]
    order = get_args(Standing)
    return sorted(found, key=lambda release: order.index(release.state))


def _of_record(record: Record, standing: Standing) -> Release:
    return Release(record.release, record.name, standing, summary=record.summary, reason=record.reason)


def _described(folder: Path, standing: Standing) -> Release:
    try:
        deployment = deployment_of(folder)
        digest = file_digest(folder / MANIFEST)
    except (EdgeoptError, OSError) as error:
        return Release(folder.name, "", standing, reason=f"It cannot be read: {error}")
    return Release(folder.name, deployment.name, standing, digest, deployment.summary, deployment.created)
