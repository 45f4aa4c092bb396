"""What `edgeopt fleet` is asked, a command each."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.options import FASTEST_PER_S, WEEK_S, argument, option

Url = Annotated[str, option("Where the agent is: https://host:port, host:port or host.", metavar="URL")]
NoWait = Annotated[bool, option("Return once the agent has it, without following.")]
Token = Annotated[
    str, option("Access token, where the agent asks for one; EDGEOPT_TOKEN by default.", metavar="TOKEN")
]
Fingerprint = Annotated[
    str,
    option("SHA-256 fingerprint of the agent's certificate; EDGEOPT_FINGERPRINT by default.", metavar="SHA256:…"),
]
Model = Annotated[
    str, option("Model on the agent, where it serves several; the first one by default.", metavar="NAME")
]
LOCAL = "http://127.0.0.1:8080"


class LookRequest(msgspec.Struct, frozen=True):
    """`status` and `releases`."""

    url: Url = LOCAL
    model: Model = ""
    token: Token = ""
    fingerprint: Fingerprint = ""


class DeployRequest(msgspec.Struct, frozen=True):
    bundle: Annotated[Path, argument("A bundle: a folder or a single file.")]
    url: Url = LOCAL
    add: Annotated[bool, option("Serve it beside the models that serve, and not in place of one.")] = False
    force: Annotated[bool, option("Also when it failed before, or was proved on another device.")] = False
    rename: Annotated[bool, option("Also when its model has another name than the one that serves.")] = False
    allow_downgrade: Annotated[
        bool, option("Also when its signature is older than that of a release that has served.")
    ] = False
    soak_seconds: Annotated[
        float | None,
        option("How long it must prove itself; the agent's own choice by default.", least=0, most=WEEK_S),
    ] = None
    soak_requests: Annotated[int | None, option("Minimum requests during the soak.", least=0, most=10**9)] = None
    no_wait: NoWait = False
    token: Token = ""
    fingerprint: Fingerprint = ""


class RollbackRequest(msgspec.Struct, frozen=True):
    url: Url = LOCAL
    to: Annotated[str, option("Release on the device; the one that served before by default.", metavar="ID")] = ""
    model: Model = ""
    no_wait: NoWait = False
    token: Token = ""
    fingerprint: Fingerprint = ""


class CancelRequest(msgspec.Struct, frozen=True):
    url: Url = LOCAL
    model: Annotated[
        str,
        option("Model whose deployment is cancelled; the only one that is going on by default.", metavar="NAME"),
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
        str, option("The code that the device shows; asked for without it.", metavar="XXXX-XXXX-XXXX")
    ] = ""


class CollectRequest(msgspec.Struct, frozen=True):
    url: Url = LOCAL
    model: Model = ""
    dry_run: Annotated[bool, option("List what would be removed, and remove nothing.")] = False
    token: Token = ""
    fingerprint: Fingerprint = ""


class WatchRequest(msgspec.Struct, frozen=True):
    url: Url = LOCAL
    seconds: Annotated[float | None, option("How long; without it until Ctrl-C.", least=0, most=WEEK_S)] = None
    send: Annotated[
        float | None,
        option(
            "Also send so many requests a second; 0: as fast as it answers.",
            metavar="RATE",
            least=0,
            most=FASTEST_PER_S,
        ),
    ] = None
    data: Annotated[Path | None, option("Samples to send (.npz or a folder of .npy); made up without them.")] = (
        None
    )
    clients: Annotated[int, option("How many clients send.", least=1, most=64)] = 2
    token: Token = ""
    fingerprint: Fingerprint = ""
    model: Model = ""
