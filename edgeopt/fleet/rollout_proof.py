"""The bundle that a device has found for its kind, as the client checks it before others get it."""

import http.client
import urllib.request
from pathlib import Path

import msgspec

from edgeopt.errors import BundleError, EdgeoptError, printable
from edgeopt.events import ignore
from edgeopt.fleet.rollout_bundle import download, opener_for, read_file, reason_of, speedup_in
from edgeopt.fleet.rollout_documents import KindProgress, RolloutSearch
from edgeopt.workspace import temporary_folder

_TIMEOUT_S = 300.0
_SIGNED = "-signed.edgeopt"


def checked_kind(search: RolloutSearch, known: KindProgress, key: Path | None) -> KindProgress:
    """Returns the kind with the bundle that its devices are ordered to serve, or with why they get none.

    With a key, the client signs the bundle, and puts it beside the unsigned one.
    """
    try:
        with temporary_folder("rollout") as folder:
            return _checked(search, known, key, Path(folder, "found.edgeopt"))
    except EdgeoptError as error:
        reason = error.message
    except (OSError, http.client.HTTPException) as error:
        reason = f"its bundle cannot be fetched from {known.bundle}: {reason_of(error)}"
    return msgspec.structs.replace(known, state="failed", reason=printable(reason))


def _checked(search: RolloutSearch, known: KindProgress, key: Path | None, file: Path) -> KindProgress:
    download(known.bundle, file, ignore)
    bundle, found = read_file(file, known.bundle)
    if bundle.digest != known.digest:
        raise BundleError(f"The file at {known.bundle} is another one: its digest is {bundle.digest}.")
    if f"sha256:{found.source.sha256}" != search.model_digest:
        raise BundleError(f"The bundle at {known.bundle} is of another model than {search.model}.")
    if found.evidence is None:
        raise BundleError(f"The bundle at {known.bundle} holds no proof.")
    speedup, low, high = speedup_in(found)
    proved = msgspec.structs.replace(
        known,
        state="ready",
        summary=printable(found.summary),
        speedup=speedup,
        speedup_low=low,
        speedup_high=high,
    )
    if key is None:
        return proved
    from edgeopt.bundle.sign import sign_bundle

    sign_bundle(file, key)
    url = known.bundle.removesuffix(".edgeopt") + _SIGNED
    _put(file, url)
    return msgspec.structs.replace(proved, bundle=url, digest=read_file(file, url)[0].digest)


def _put(file: Path, url: str) -> None:
    headers = {"Content-Type": "application/zip", "Content-Length": str(file.stat().st_size)}
    try:
        with file.open("rb") as content:
            request = urllib.request.Request(url, data=content, headers=headers, method="PUT")  # noqa: S310 - the opener has HTTP and HTTPS only
            opener_for(url).open(request, timeout=_TIMEOUT_S).close()
    except (OSError, http.client.HTTPException) as error:
        raise BundleError(f"The signed bundle cannot be put to {url}: {reason_of(error)}.") from None
