"""FETCHING: the agent downloads a bundle itself, and goes on where a transfer broke."""

import asyncio
import logging
import random
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from edgeopt import units
from edgeopt.bundle.manifest import file_digest
from edgeopt_agent.bundle_urls import shown
from edgeopt_agent.data_dir import DataDir, remove
from edgeopt_agent.deployments.download import Body, ChangedError, Link, TransferError, open_body
from edgeopt_agent.deployments.receive import archive_of, to_disk
from edgeopt_agent.deployments.record import Source
from edgeopt_agent.deployments.refused import StepError
from edgeopt_agent.deployments.registry_login import RegistryRequest
from edgeopt_agent.deployments.site import Outcome, Site, Work, title_of
from edgeopt_agent.releases import check_space
from edgeopt_agent.settings import Settings
from edgeopt_agent.threads import in_thread

log = logging.getLogger(__name__)
_MAX_RESTARTS = 5
"""Most times that a download may begin again because its parts did not fit together."""
_SPACE_EVERY_BYTES = 16 << 20
_OPENING_LIMITS = 4
"""Time until an answer must begin, in `body_timeout_s`: addresses may be dead, and redirects take requests."""


def part_of(data: DataDir, source: Source) -> Path:
    """Returns the file of a partly fetched bundle, named by its digest so that it fits no other bundle."""
    return data.partial / f"{source.digest.partition(':')[2]}.part"


def remove_parts(data: DataDir, kept: Source | None) -> None:
    """Removes what was left of downloads, except of this one."""
    own = None if kept is None else part_of(data, kept)
    for left in data.partial.glob("*.part"):
        if left != own:
            remove(left)


@dataclass(slots=True)
class Download:
    """A file that is being fetched: a bundle, or a part of one."""

    source: Source
    file: Path
    got: int = 0
    total: int | None = None
    etag: str = ""
    answers: int = 0
    """Number of HTTP answers from which the received bytes come."""
    restarts: int = 0
    prefixes: tuple[str, ...] = ()
    """Allowed places besides those in `fetch_from`."""
    registry: RegistryRequest | None = None
    before_bytes: int = 0
    """Bytes of the parts before this one, of `whole_bytes` in all."""
    whole_bytes: int | None = None
    hint: str = "Check --digest."

    def drop(self) -> None:
        remove(self.file)
        self.got, self.total, self.etag, self.answers = 0, None, "", 0


async def fetch(site: Site, work: Work) -> Outcome:
    """Downloads the bundle until all of it is there with its digest; the state's limit bounds the tries."""
    source = work.record.source
    assert source is not None  # noqa: S101 - what is fetched has one
    await asyncio.to_thread(remove_parts, site.data, source)
    download = Download(source, part_of(site.data, source))
    await fetch_file(site, work, download)
    work.length = download.got
    await asyncio.to_thread(download.file.replace, archive_of(site, work))
    return Outcome(reason=f"{units.size(download.got)} from {shown(source.url)}")


async def fetch_file(site: Site, work: Work, download: Download) -> None:
    """Downloads a file until all of it is there with its digest, after the bytes that an earlier run left."""
    source, file = download.source, download.file
    size = file.stat().st_size if file.exists() else 0
    download.got, download.answers = size, 1 if size else 0
    failures = 0
    done = bool(size) and await _digest(download) == source.digest
    while not done:
        before = download.got
        try:
            done = await _transfer(site, work, download)
        except TransferError as error:
            if isinstance(error, ChangedError):
                await asyncio.to_thread(download.drop)
                download.restarts += 1
                if download.restarts > _MAX_RESTARTS:
                    raise StepError(f"The download began again too often: {error}.", fault=False) from None
            failures = 1 if download.got > before else failures + 1
            delay_s = retry_delay_s(site.settings, failures)
            work.last_failure = f"Last failure: {error}."
            log.warning("%s: %s; next try in %.1f s.", title_of(site, work.record), error, delay_s)
            work.progress = {**_progress(download), "failure": str(error), "retry_s": round(delay_s, 1)}
            await asyncio.sleep(delay_s)


def retry_delay_s(settings: Settings, failures: int) -> float:
    """Returns a random delay, doubled with each failure: devices that lost a server must not retry at once."""
    max_s = settings.fetch_retry_most_s
    return min(max_s, settings.fetch_retry_s * 2.0 ** min(failures - 1, 30)) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


def _progress(download: Download) -> dict[str, str | float | int | bool]:
    total = download.total if download.whole_bytes is None else download.whole_bytes
    return {
        "received_bytes": download.before_bytes + download.got,
        **({} if total is None else {"total_bytes": total}),
    }


async def _digest(download: Download) -> str:
    return f"sha256:{await in_thread(partial(file_digest, download.file))}"


async def _transfer(site: Site, work: Work, download: Download) -> bool:
    """Makes one request for the rest of the bundle; raises TransferError if another one may bring the rest."""
    settings, url = site.settings, download.source.url
    link = Link()
    prefixes = (*settings.fetch_from, *download.prefixes)
    arguments = (url, download.got, download.etag, prefixes, settings.body_timeout_s, link, download.registry)
    body = None
    try:
        async with asyncio.timeout(_OPENING_LIMITS * settings.body_timeout_s) as opening:
            body = await in_thread(partial(open_body, *arguments))
        if body.start and download.total not in {None, body.total}:
            raise ChangedError(f"the size of {shown(url)} has changed")
        if not body.start:
            await asyncio.to_thread(download.drop)
        download.total, download.etag = body.total, body.etag
        await _check_room(site, download)
        download.answers += 1
        await _write(site, work, download, body)
    except TimeoutError:
        if not opening.expired():
            raise
        raise TransferError(f"{shown(url)} sent no whole answer in time") from None
    finally:
        link.close()
        if body is not None:
            body.close()
    if download.total is not None and download.got != download.total:
        raise TransferError(f"the connection ended after {download.got} of {download.total} bytes")
    digest = await _digest(download)
    if digest == download.source.digest:
        return True
    # The server may have got another file in the middle, or have hung up without saying how much was left.
    if download.answers > 1 or download.total is None:
        raise ChangedError(f"the parts of {shown(url)} do not give {download.source.digest}")
    await asyncio.to_thread(download.drop)
    raise StepError(
        f"The file at {shown(url)} is another one: its digest is {digest}, not {download.source.digest}. "
        f"{download.hint}",
        fault=False,
    )


async def _write(site: Site, work: Work, download: Download, body: Body) -> None:
    checked = download.got
    with await asyncio.to_thread(download.file.open, "ab") as file:
        while piece := await in_thread(body.read):
            if download.got + len(piece) > site.settings.max_bundle_bytes:
                raise _too_large(site, download)
            if download.total is not None and download.got + len(piece) > download.total:
                raise ChangedError(f"{shown(download.source.url)} sends more than its {download.total} bytes")
            if download.total is None and download.got - checked > _SPACE_EVERY_BYTES:
                await _check_room(site, download)
                checked = download.got
            await asyncio.to_thread(file.write, piece)
            download.got += len(piece)
            work.progress = _progress(download)
        await in_thread(to_disk(file.flush, file.fileno()))


async def _check_room(site: Site, download: Download) -> None:
    """Raises StepError or RefusedError where the bundle, as it comes and unpacked, does not fit."""
    total = download.got if download.total is None else download.total
    if total > site.settings.max_bundle_bytes:
        raise _too_large(site, download)
    await asyncio.to_thread(check_space, site.data, total, site.settings.disk_reserve_bytes, download.got)


def _too_large(site: Site, download: Download) -> StepError:
    remove(download.file)
    has = f"has {download.total} bytes" if download.total is not None else "is too large"
    maximum = site.settings.max_bundle_bytes
    return StepError(
        f"The bundle at {shown(download.source.url)} {has}; at most {maximum} are taken.", fault=False
    )
