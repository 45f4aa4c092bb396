"""Requests of `edgeopt fleet discover`, `edgeopt fleet devices` and `edgeopt fleet rollout`."""

import re
from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.fleet.mqtt_topics import FLEET, PREFIX
from edgeopt.options import WEEK_S, argument, arguments, changed, option, options_of
from edgeopt.platform.command_line import join_words

Key = Annotated[
    Path | None, option("Private key that signs orders, for devices that trust its public half.", metavar="K")
]
Name = Annotated[str, argument("Name of the rollout.", metavar="NAME")]


class DiscoverRequest(msgspec.Struct, frozen=True):
    seconds: Annotated[float, option("How long to wait for answers, in seconds.", minimum=0.1, maximum=600)] = 3.0
    interfaces: Annotated[
        tuple[str, ...],
        option("Only by the interface with this address; repeatable.", "--interface", metavar="IP"),
    ] = ()


class BrokerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The options of all commands that use the broker."""

    broker: Annotated[
        str, option("MQTT broker of the fleet (default: EDGEOPT_BROKER).", metavar="mqtts://HOST:PORT")
    ] = ""
    fleet: Annotated[str, option("Name of the fleet.", metavar="NAME")] = FLEET
    prefix: Annotated[str, option("First part of all topics.", metavar="TOPIC")] = PREFIX
    username: Annotated[
        str, option("User name at the broker (default: EDGEOPT_BROKER_USERNAME).", metavar="NAME")
    ] = ""
    password_file: Annotated[
        Path | None, option("File with the password (default: EDGEOPT_BROKER_PASSWORD, the password).")
    ] = None
    ca_file: Annotated[
        Path | None,
        option("Authorities that may sign the broker's certificate (default: EDGEOPT_CA_FILE, or the system's)."),
    ] = None
    client_cert: Annotated[Path | None, option("Certificate of this client, PEM.")] = None
    client_key: Annotated[Path | None, option("Private key of --client-cert, PEM.")] = None
    allow_plain: Annotated[bool, option("Allow mqtt:// without TLS to another machine, as in a VPN.")] = False


class DevicesRequest(BrokerRequest, frozen=True, kw_only=True):
    to: Annotated[
        str, option("Only these devices: names, patterns, LABEL=VALUE or @FILE.", metavar="SELECTION")
    ] = ""
    follow: Annotated[bool, option("Stay connected, and print what changes until Ctrl-C.")] = False


class RolloutStartRequest(BrokerRequest, frozen=True, kw_only=True):
    bundle: Annotated[str, argument("Address from which the devices fetch the bundle.", metavar="URL")]
    to: Annotated[
        str,
        option("Devices: names, patterns, LABEL=VALUE or @FILE, separated by commas.", metavar="SELECTION"),
    ]
    digest: Annotated[
        str,
        option("Digest of the bundle file (default: that of the file at URL, or of --copy).", metavar="SHA256:…"),
    ] = ""
    copy: Annotated[
        Path | None, option("Copy of the bundle on this machine, which is read instead of the one at URL.")
    ] = None
    waves: Annotated[
        str, option("Sizes of the waves: devices, percentages of all, rest.", metavar="1,10%,rest")
    ] = "1,10%,rest"
    stop_at_failures: Annotated[
        str, option("Largest share of failed devices; more stop the rollout.", metavar="2%")
    ] = "2%"
    device_timeout: Annotated[
        float,
        option("Longest time of a device in one state, in seconds; then it failed.", minimum=1, maximum=WEEK_S),
    ] = 3600.0
    max_errors: Annotated[
        str, option("Largest share of failed requests during the soak (default: the agent's).", metavar="1%")
    ] = ""
    min_agreement_db: Annotated[
        float | None,
        option("Least agreement with the release before, in dB (default: the agent's).", metavar="DB"),
    ] = None
    max_slowdown: Annotated[str, option("Largest increase in latency over the release before.", metavar="20%")] = (
        ""
    )
    name: Annotated[str, option("Name of the rollout (default: bundle and time).", metavar="NAME")] = ""
    key: Key = None
    model: Annotated[str, option("Model that is replaced (default: the first one).", metavar="NAME")] = ""
    add: Annotated[bool, option("Serve the model of --model in addition to those already served.")] = False
    also: Annotated[
        tuple[str, ...],
        option("Another model in the same order, all or none; can be repeated.", metavar="MODEL=URL@SHA256:…"),
    ] = ()
    remove: Annotated[
        tuple[str, ...], option("Model that the same order removes; can be repeated.", metavar="MODEL")
    ] = ()
    force: Annotated[bool, option("Deploy even where the bundle failed before.")] = False
    rename: Annotated[bool, option("Deploy even if the model has another name than the one now served.")] = False
    allow_downgrade: Annotated[
        bool, option("Deploy even if the signature is older than that of a release already served.")
    ] = False
    soak_seconds: Annotated[
        float | None,
        option("Soak (trial period), in seconds (default: set by the agent).", minimum=0, maximum=WEEK_S),
    ] = None
    soak_requests: Annotated[
        int | None, option("Requests that each device must serve during its soak.", minimum=0, maximum=10**9)
    ] = None
    optimize: Annotated[
        bool, option("One device of each kind searches for a bundle: URL is that of an ONNX model.")
    ] = False
    data: Annotated[
        str,
        option("With --optimize, address of the samples (.npz).", metavar="URL[@SHA256:…]"),
    ] = ""
    store: Annotated[
        str, option("With --optimize, where devices put the bundles that they found.", metavar="URL/")
    ] = ""
    floor: Annotated[
        str, option("With --optimize, accuracy floor of the search (default: that of edgeopt optimize).")
    ] = ""
    metric: Annotated[
        str, option("With --optimize, accuracy metric of the search (default: that of edgeopt optimize).")
    ] = ""
    time_limit: Annotated[
        float,
        option("With --optimize, longest time of a search with its proof, in seconds.", minimum=1, maximum=86400),
    ] = 600.0
    dry_run: Annotated[bool, option("Show the waves, and order nothing.")] = False


class RolloutStatusRequest(BrokerRequest, frozen=True, kw_only=True):
    name: Annotated[str, argument("Name of the rollout (default: list all).", metavar="NAME")] = ""


class RolloutPauseRequest(BrokerRequest, frozen=True, kw_only=True):
    name: Name


class RolloutControlRequest(BrokerRequest, frozen=True, kw_only=True):
    """`resume`, `cancel` and `rollback`."""

    name: Name
    key: Key = None


_COMMAND = re.compile(
    r"\bedgeopt fleet (devices|rollout (?:start|status|pause|resume|cancel|rollback))\b"
    r"(?: (?!-)[\w.-]*\w\b)?(?! --)"
)
_TAKE_KEY = ("rollout start", "rollout resume", "rollout cancel", "rollout rollback")


def in_fleet_commands(text: str, request: BrokerRequest) -> str:
    """Returns a sentence whose commands reach the fleet as this one did: with the options that it was given.

    What the environment has is there anyway.
    """
    own = {each.name for each in options_of(BrokerRequest)}
    values = {each.name: getattr(request, each.name) for each in changed(request) if each.name in own}
    options = arguments(BrokerRequest, values)
    key = getattr(request, "key", None)
    signing = () if key is None else ("--key", str(key))

    def reaching(found: re.Match[str]) -> str:
        return f"{found[0]} {join_words((*options, *(signing if found[1] in _TAKE_KEY else ())))}".rstrip()

    return _COMMAND.sub(reaching, text)
