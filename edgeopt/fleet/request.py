"""Requests of `edgeopt fleet`, one for each command."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.bundle.request import PicturesFile
from edgeopt.options import FASTEST_PER_S, WEEK_S, argument, option

Url = Annotated[str, option("Address of the agent: https://host:port, host:port or host.", metavar="URL")]
NoWait = Annotated[bool, option("Return once the agent has accepted the request.")]
Token = Annotated[str, option("Access token of the agent (default: EDGEOPT_TOKEN).", metavar="TOKEN")]
Fingerprint = Annotated[
    str,
    option("SHA-256 fingerprint of the agent's certificate (default: EDGEOPT_FINGERPRINT).", metavar="SHA256:…"),
]
Model = Annotated[str, option("Model on the agent (default: the first one).", metavar="NAME")]
LOCAL = "http://127.0.0.1:8080"


class LookRequest(msgspec.Struct, frozen=True):
    """`status` and `releases`."""

    url: Url = LOCAL
    model: Model = ""
    token: Token = ""
    fingerprint: Fingerprint = ""


class DeployRequest(msgspec.Struct, frozen=True):
    bundle: Annotated[
        Path | None, argument("Bundle to deploy: a folder, a single file, or oci://HOST/REPOSITORY:TAG.")
    ] = None
    url: Url = LOCAL
    from_: Annotated[
        str, option("Address of a bundle that the agent fetches itself; needs --digest.", "--from", metavar="URL")
    ] = ""
    digest: Annotated[
        str, option("Digest of the bundle file at --from, as sha256sum prints it.", metavar="SHA256:…")
    ] = ""
    model: Annotated[
        str,
        option("Model that --from replaces, or adds with --add (default: the first one).", metavar="NAME"),
    ] = ""
    add: Annotated[bool, option("Serve the model in addition to those already served.")] = False
    force: Annotated[bool, option("Deploy even if the bundle failed before or was proved on another device.")] = (
        False
    )
    rename: Annotated[bool, option("Deploy even if the model has another name than the one now served.")] = False
    allow_downgrade: Annotated[
        bool, option("Deploy even if the signature is older than that of a release already served.")
    ] = False
    soak_seconds: Annotated[
        float | None,
        option(
            "Soak (trial period) of the new release, in seconds (default: set by the agent).",
            minimum=0,
            maximum=WEEK_S,
        ),
    ] = None
    soak_requests: Annotated[
        int | None,
        option("Requests that the new release must also serve during its soak.", minimum=0, maximum=10**9),
    ] = None
    dry_run: Annotated[bool, option("Show what the deployment would change, and deploy nothing.")] = False
    no_wait: NoWait = False
    token: Token = ""
    fingerprint: Fingerprint = ""


class RollbackRequest(msgspec.Struct, frozen=True):
    url: Url = LOCAL
    to: Annotated[str, option("Release to return to (default: the one served before).", metavar="ID")] = ""
    model: Model = ""
    no_wait: NoWait = False
    token: Token = ""
    fingerprint: Fingerprint = ""


class CancelRequest(msgspec.Struct, frozen=True):
    url: Url = LOCAL
    model: Annotated[
        str,
        option("Model whose deployment is cancelled (default: the only running one).", metavar="NAME"),
    ] = ""
    no_wait: NoWait = False
    token: Token = ""
    fingerprint: Fingerprint = ""


class RemoveRequest(msgspec.Struct, frozen=True):
    model: Annotated[str, argument("A model that was deployed with --add.", metavar="NAME")]
    url: Url = LOCAL
    token: Token = ""
    fingerprint: Fingerprint = ""


class PairRequest(msgspec.Struct, frozen=True):
    url: Url = LOCAL
    code: Annotated[
        str, option("Pairing code shown by the device; prompts for it if missing.", metavar="XXXX-XXXX-XXXX")
    ] = ""


class CollectRequest(msgspec.Struct, frozen=True):
    url: Url = LOCAL
    model: Model = ""
    dry_run: Annotated[bool, option("List what would be removed, and remove nothing.")] = False
    token: Token = ""
    fingerprint: Fingerprint = ""


class FleetWatchRequest(msgspec.Struct, frozen=True):
    url: Url = LOCAL
    seconds: Annotated[
        float | None, option("Duration, in seconds (default: until Ctrl-C).", minimum=0, maximum=WEEK_S)
    ] = None
    send: Annotated[
        float | None,
        option(
            "Requests per second to send; 0 sends as fast as the agent answers.",
            metavar="RATE",
            minimum=0,
            maximum=FASTEST_PER_S,
        ),
    ] = None
    data: Annotated[
        Path | None, option("Samples to send: .npz, or a folder of .npy files or pictures (default: generated).")
    ] = None
    pre: PicturesFile = None
    clients: Annotated[int, option("Number of concurrent clients that send.", minimum=1, maximum=64)] = 2
    token: Token = ""
    fingerprint: Fingerprint = ""
    model: Model = ""
