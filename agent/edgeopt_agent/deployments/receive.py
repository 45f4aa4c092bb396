"""RECEIVING, VERIFYING and STAGED: a bundle comes in, is checked, and takes its place among the releases."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import cast

from edgeopt.bundle.archive import unpack
from edgeopt.bundle.durable import publish_file, publish_folder
from edgeopt.bundle.manifest import SIGNATURE, check_manifest, release_id
from edgeopt.bundle.sign import claimed_sequence
from edgeopt.errors import BundleError
from edgeopt.hw.device import differing_parts, fingerprint
from edgeopt.registry.reference import is_reference
from edgeopt_agent.deployments.floors import highest_sequence
from edgeopt_agent.deployments.record import Detail
from edgeopt_agent.deployments.refused import StepError
from edgeopt_agent.deployments.site import Outcome, Site, Work, current, name_of
from edgeopt_agent.deployments.states import Event, State
from edgeopt_agent.releases import deployment_of
from edgeopt_agent.threads import in_thread
from edgeopt_agent.trust import check_signature, is_loopback, untrusted
from edgeopt_agent.workers.names import clash_sentence


def archive_of(site: Site, work: Work) -> Path:
    return site.data.partial / f"{work.record.id}.zip"


def unpacked_of(site: Site, work: Work) -> Path:
    return site.data.partial / f"deployment-{work.record.id}"


async def receive(site: Site, work: Work) -> Outcome:
    def on_progress(got: int) -> None:
        work.progress = {"received_bytes": got, "total_bytes": work.length}

    if work.spooled is not None:
        await asyncio.to_thread(work.spooled.replace, archive_of(site, work))
    else:
        assert work.stream is not None  # noqa: S101 - what is sent has a stream
        await write_stream(
            work.stream, work.length, archive_of(site, work), site.settings.body_timeout_s, on_progress
        )
    work.arrived = True
    work.received.set()
    return Outcome(reason=f"{work.length} bytes")


async def write_stream(
    stream: AsyncIterator[bytes], length: int, place: Path, limit_s: float, on_progress: Callable[[int], None]
) -> None:
    """Writes a bundle that is on its way into a file; raises StepError unless all of it comes."""
    got = 0
    file = await asyncio.to_thread(place.open, "xb")
    with file:
        while piece := await _next_piece(stream, limit_s, got):
            got += len(piece)
            if got > length:
                raise StepError(f"More came than the {length} bytes that were announced.", fault=False)
            await asyncio.to_thread(file.write, piece)
            on_progress(got)
        if got != length:
            raise StepError(f"The connection ended after {got} of {length} bytes.", fault=False)
        await in_thread(to_disk(file.flush, file.fileno()))


async def _next_piece(stream: AsyncIterator[bytes], limit_s: float, got: int) -> bytes:
    """Returns the next piece, empty at the end; limits the wait: a vanished sender must not block others."""
    try:
        async with asyncio.timeout(limit_s):
            return await anext(stream, b"")
    except TimeoutError:
        raise StepError(f"Nothing came for {limit_s:g} s after {got} bytes.", fault=False) from None


def to_disk(flush: Callable[[], None], descriptor: int) -> Callable[[], None]:
    def write() -> None:
        flush()
        os.fsync(descriptor)

    return write


async def verify(site: Site, work: Work) -> Outcome:
    folder = unpacked_of(site, work)
    device_parts = fingerprint(await site.device())
    found = await in_thread(partial(_verify, site, work, folder, device_parts))
    await _refuse_quarantined(site, work, str(work.found["release"]))
    if found.event is not Event.KNOWN:
        await _refuse_downgrade(site, work, found)
    return found


def _verify(site: Site, work: Work, folder: Path, device_parts: dict[str, str]) -> Outcome:
    source = work.record.source
    if source is None or not is_reference(source.url):  # from a registry, it came as a folder
        unpack(archive_of(site, work), folder, site.settings.max_bundle_bytes, f"The bundle {work.bundle}")
        archive_of(site, work).unlink()
    listed = check_manifest(folder)
    release = work.found["release"] = release_id(folder)
    deployment = deployment_of(folder)
    if not (deployment.name and deployment.name.isprintable() and deployment.summary.isprintable()):
        raise BundleError("The bundle's name or summary contains characters that cannot be shown.")
    work.found |= {"name": deployment.name, "summary": deployment.summary}
    signed_by = check_signature(folder, site.data.trust)
    detail: Detail = {}
    if signed_by:
        sequence = claimed_sequence(folder)
        work.found["sequence"] = sequence
        detail = {"signed_by": signed_by, "sequence": sequence}
    if not signed_by and not is_loopback(site.settings.host):
        raise StepError(
            "No key is trusted, and other machines can reach this agent, so it accepts no bundle. On the device: "
            "edgeopt-agent trust add KEY.pub",
            fault=False,
        )
    if deployment.run.model not in listed.files:
        raise BundleError(f"The bundle runs '{deployment.run.model}', which its manifest does not list.")
    other = differing_parts(deployment.device, device_parts)
    if other and not work.record.force:
        raise StepError(
            f"The bundle '{deployment.name}' was proved on another device (its {' and '.join(other)} differ), so "
            "its proof does not hold here. Optimize the model for this device, or deploy the bundle with --force.",
            fault=False,
        )
    served = name_of(site, current(site)) or site.model
    if served not in {"", deployment.name} and not work.record.rename:
        raise StepError(
            f"The bundle's model is called '{deployment.name}', and the one that serves '{served}': clients "
            f"of '{served}' would get 404. Deploy it with --rename if that is intended, or with --add to serve "
            "both.",
            fault=False,
        )
    if work.record.expected not in {"", deployment.name}:
        raise StepError(
            f"The bundle's model is called '{deployment.name}', not '{work.record.expected}'. Name it as in the "
            "bundle.",
            fault=False,
        )
    if other_name := site.name_clash(deployment.name):
        raise StepError(clash_sentence(deployment.name, other_name), fault=False)
    changes: dict[str, object] = {"detail": detail}
    serving = site.router.serving
    if release == current(site) and serving is not None and serving.release_id == release:
        served_folder = site.data.release(release)
        done = "nothing was changed"
        if signed_by and untrusted(served_folder, deployment.name, site.data.trust):
            # The signature is the only file that the manifest, and so the release's id, does not cover.
            publish_file(folder / SIGNATURE, served_folder / SIGNATURE)
            done = f"it is now signed by {signed_by}"
        return Outcome(Event.KNOWN, f"'{deployment.name}' ({release}) already serves; {done}.", changes)
    reason = "signed by " + signed_by if signed_by else "digests hold"
    return Outcome(reason=reason, changes=changes)


async def _refuse_quarantined(site: Site, work: Work, release: str) -> None:
    failed = (await site.journal.quarantined()).get(release)
    if failed is not None and not work.record.force:
        raise StepError(
            f"The bundle {work.bundle} failed before (deployment {failed.id}: {failed.reason}) and is refused. "
            "Send a corrected bundle, or this one with --force.",
            fault=False,
        )


async def _refuse_downgrade(site: Site, work: Work, found: Outcome) -> None:
    """Refuses a signed release older than one that served: the signature alone stays valid as long as its key."""
    sequence = work.found.get("sequence")
    if not isinstance(sequence, int) or work.record.allow_downgrade:
        return
    names = {site.model, str(work.found["name"])}
    highest = await highest_sequence(site.data, names, site.journal)
    if sequence < highest:
        detail = cast(Detail, found.changes["detail"])
        work.found["detail"] = {**detail, "refused": "downgrade", "highest_sequence": highest}
        raise StepError(
            f"The bundle {work.bundle} is older than a release that has served here: its sequence number is "
            f"{sequence}, the highest so far {highest}. Sign it again, or deploy it with --allow-downgrade.",
            fault=False,
        )


async def stage(site: Site, work: Work) -> Outcome:
    target = site.data.release(work.record.release)
    await in_thread(partial(publish_folder, unpacked_of(site, work), target))
    if work.joint is not None:
        await work.joint.meet(site.model, State.STAGED)
    return Outcome()
