"""FETCHING from a registry: the manifest by its digest, then each file of the bundle, which becomes a folder.

Of an index, the agent takes the entry that fits its device.
"""

import asyncio
import shutil
from functools import partial
from pathlib import Path

from edgeopt import units
from edgeopt.hw.device import fingerprint
from edgeopt.registry.documents import INDEX, MANIFEST, MAX_BYTES, FileLayer, read_layers
from edgeopt.registry.index import choose_entry, is_index
from edgeopt.registry.reference import is_reference, read_reference
from edgeopt_agent.bundle_urls import allowed, read_place, read_url
from edgeopt_agent.data_dir import remove
from edgeopt_agent.deployments.fetch import Download, fetch, fetch_file, part_of, remove_parts
from edgeopt_agent.deployments.receive import unpacked_of
from edgeopt_agent.deployments.record import Source
from edgeopt_agent.deployments.refused import StepError
from edgeopt_agent.deployments.registry_login import RegistryLogin, RegistryRequest
from edgeopt_agent.deployments.site import Outcome, Site, Work
from edgeopt_agent.releases import check_space
from edgeopt_agent.threads import in_thread

_ACCEPT = f"{MANIFEST}, {INDEX}"
_HINT = "Push the bundle again."


async def fetch_bundle(site: Site, work: Work) -> Outcome:
    """Downloads the bundle from a web server, or file by file from a registry."""
    source = work.record.source
    assert source is not None  # noqa: S101 - what is fetched has one
    if not is_reference(source.url):
        return await fetch(site, work)
    if not allowed(read_place(source.url), site.settings.fetch_from):  # the settings may have changed since
        raise StepError(f"`fetch_from` in agent.toml does not allow {source.url}.", fault=False)
    await asyncio.to_thread(remove_parts, site.data, source)
    folder = part_of(site.data, source)
    await asyncio.to_thread(partial(folder.mkdir, exist_ok=True))
    reference = read_reference(source.url)
    base = f"{'http' if reference.is_loopback else 'https'}://{reference.host}/v2/{reference.repository}"
    prefixes = (f"{base}/",)
    login = RegistryLogin(read_url(base), site.settings.registry_auth)
    documents = RegistryRequest(login, _ACCEPT)
    place = Source(f"{base}/manifests/{source.digest}", source.digest)
    document = Download(place, folder / "manifest", prefixes=prefixes, registry=documents, hint=_HINT)
    content = await _fetch_document(site, work, document)
    entry = None
    if is_index(content, source.url):
        entry = choose_entry(content, fingerprint(await site.device()), source.url)
        place = Source(f"{base}/manifests/{entry.digest}", entry.digest)
        document = Download(place, folder / "entry", prefixes=prefixes, registry=documents, hint=_HINT)
        content = await _fetch_document(site, work, document)
    layers = read_layers(content, source.url, entry)
    total = sum(each.size_bytes for each in layers)
    if total > site.settings.max_bundle_bytes:
        maximum = site.settings.max_bundle_bytes
        raise StepError(f"The bundle {source.url} has {total} bytes; at most {maximum} are taken.", fault=False)
    here = sum(file.stat().st_size for file in folder.iterdir())
    await asyncio.to_thread(check_space, site.data, total, site.settings.disk_reserve_bytes, here)
    before = 0
    for layer in layers:
        blob = Source(f"{base}/blobs/{layer.digest}", layer.digest)
        part = Download(
            blob,
            _file(folder, layer),
            prefixes=prefixes,
            registry=RegistryRequest(login),
            before_bytes=before,
            whole_bytes=total,
            hint=_HINT,
        )
        await fetch_file(site, work, part)
        before += layer.size_bytes
    work.length = total
    await in_thread(partial(_assemble, folder, layers, unpacked_of(site, work)))
    return Outcome(reason=f"{units.size(total)} from {source.url}")


async def _fetch_document(site: Site, work: Work, document: Download) -> bytes:
    await fetch_file(site, work, document)
    if document.got > MAX_BYTES:
        raise StepError(
            f"The manifest at {document.source.url} has {document.got} bytes; at most {MAX_BYTES} are taken."
        )
    return await asyncio.to_thread(document.file.read_bytes)


def _file(folder: Path, layer: FileLayer) -> Path:
    return folder / layer.digest.partition(":")[2]


def _assemble(parts: Path, layers: tuple[FileLayer, ...], folder: Path) -> None:
    """Moves the parts to their places in the bundle; equal files came once."""
    remove(folder)
    placed: dict[str, Path] = {}
    for layer in layers:
        path = folder / layer.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if layer.digest in placed:
            shutil.copyfile(placed[layer.digest], path)
        else:
            _file(parts, layer).rename(path)
            placed[layer.digest] = path
    remove(parts)
