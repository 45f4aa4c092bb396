"""Commands `edgeopt fleet devices` and `edgeopt fleet rollout`."""

import asyncio
import functools
import re
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar
from urllib.parse import urlsplit

import msgspec

from edgeopt.bundle.manifest import file_digest
from edgeopt.errors import EdgeoptError, InputError, UsageError, VerificationError, printable
from edgeopt.events import Emit
from edgeopt.fleet.devices import FleetDevices, described, known_names
from edgeopt.fleet.mqtt_client import broker_of, connected, fleet_topics
from edgeopt.fleet.mqtt_documents import DesiredBundle, DesiredModel, SearchResult, is_digest
from edgeopt.fleet.mqtt_topics import NAME
from edgeopt.fleet.rollout import result, seen
from edgeopt.fleet.rollout_bundle import RolloutBundle, digest_at, read_bundle_of
from edgeopt.fleet.rollout_documents import (
    OPEN_PHASES,
    DeviceProgress,
    KindProgress,
    Limits,
    Rollout,
    RolloutSearch,
    is_signed,
    rollout_message,
)
from edgeopt.fleet.rollout_driver import Driver, FleetState, ask, check_action, named, now_sequence, read_fleet
from edgeopt.fleet.rollout_kinds import kind_of
from edgeopt.fleet.rollout_plan import in_waves, read_share, selected
from edgeopt.fleet.rollout_request import (
    BrokerRequest,
    DevicesRequest,
    RolloutControlRequest,
    RolloutPauseRequest,
    RolloutStartRequest,
    RolloutStatusRequest,
    in_fleet_commands,
)
from edgeopt.options import changed

_LARGEST_STATE_BYTES = 1_900_000
"""Mosquitto takes 2,000,000 by default."""
_LONGEST_STEM = 40
_GROWTH_RESERVE_BYTES = 250
"""Reserve for the growth of each device's part of a rollout's state."""
_UNTOUCHED = DeviceProgress()
Found = TypeVar("Found")
More = ParamSpec("More")
Request = TypeVar("Request", bound=BrokerRequest)


def with_broker_options(
    command: Callable[Concatenate[Request, More], Found],
) -> Callable[Concatenate[Request, More], Found]:
    """Lets the commands in an error have the options by which this one reached the broker."""

    @functools.wraps(command)
    def wrapped(request: Request, /, *more: More.args, **named: More.kwargs) -> Found:
        try:
            return command(request, *more, **named)
        except EdgeoptError as error:
            error.hint = in_fleet_commands(error.hint, request)
            raise

    return wrapped


class RolloutDevice(msgspec.Struct, frozen=True):
    """One line of the table of a rollout."""

    device: str
    wave: int
    state: str
    online: bool = True
    stage: str = ""
    reason: str = ""
    since_s: float = 0.0
    models: dict[str, str] = {}
    """The state of each model, where several were ordered together."""
    kind: str = ""
    """The kind of the device, if each kind has a bundle of its own."""


class RolloutKind(SearchResult, frozen=True, kw_only=True, omit_defaults=False):
    """One kind of device, where each kind searches for a bundle of its own."""

    kind: str
    devices: int
    state: str = "planned"
    device: str = ""
    """The device that searches."""


class RolloutReport(msgspec.Struct, frozen=True):
    """Progress of a rollout."""

    name: str
    phase: str
    reason: str
    bundle: str
    digest: str
    wave: int
    waves: tuple[int, ...]
    """The sizes of the waves."""
    counts: dict[str, int]
    """Devices by their state."""
    devices: tuple[RolloutDevice, ...]
    dry_run: bool = False
    models: dict[str, str] = {}
    """The bundle of each model, where several are ordered together; empty for one that is removed."""
    signed: bool = False
    """Whether continuing it takes the private key with which it was begun."""
    model_name: str = ""
    """Name of the model in the bundle; empty until it is known."""
    release: str = ""
    kinds: tuple[RolloutKind, ...] = ()
    """Kinds of devices; without a search of their own there are none."""


class RolloutList(msgspec.Struct, frozen=True):
    rollouts: tuple[RolloutReport, ...]


@with_broker_options
def devices(request: DevicesRequest) -> FleetDevices:
    async def work() -> FleetDevices:
        async with connected(request) as client:
            state = await read_fleet(client, rollouts=False)
        names = selected(request.to, state.devices) if request.to else known_names(state.devices)
        return FleetDevices(request.fleet, tuple(described(name, state.devices[name]) for name in names))

    return _run(work())


def rollout_name(request: RolloutStartRequest) -> str:
    """The name that was given, or one of the bundle and the time; raises UsageError for no name."""
    if request.name:
        if not NAME.fullmatch(request.name):
            raise UsageError(f"'{request.name}' cannot be a name.", "Use letters, digits, '.', '_' and '-'.")
        return request.name
    stem = urlsplit(request.bundle).path.rpartition("/")[2].partition(".")[0]
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", stem)[:_LONGEST_STEM].strip("._-")
    return f"{plain or 'rollout'}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"


@with_broker_options
def start(request: RolloutStartRequest, name: str, emit: Emit) -> RolloutReport:
    if request.add and not request.model:
        raise UsageError("--add needs the name of the model.", "Pass the name in the bundle: --add --model NAME")
    _models(request, request.digest)
    limits = _limits(request)
    broker_of(request)  # what is wrong there is said before the bundle is read
    search = _search(request, emit)
    known = read_bundle_of(request, emit) if search is None else RolloutBundle("")

    def plan(state: FleetState) -> Rollout:
        return _planned(request, name, limits, known, state, search)

    if request.dry_run:
        return _run(_dry_run(request, plan))
    return _ended(_run(Driver(request, name, request.key, emit).begin(plan)))


async def _dry_run(request: RolloutStartRequest, plan: Callable[[FleetState], Rollout]) -> RolloutReport:
    async with connected(request) as client:
        rollout = plan(await read_fleet(client))
    return msgspec.structs.replace(report_of(rollout), dry_run=True)


@with_broker_options
def pause(request: RolloutPauseRequest) -> RolloutReport:
    """Tells the client that runs the rollout. It needs no key: a pause can do no harm."""

    async def work() -> RolloutReport:
        async with connected(request) as client:
            state = await read_fleet(client)
            named(state, request.name)
            check_action(rollout := _known(state, request.name), "pause")
            await ask(client, state, rollout, "pause")
            return report_of(_known(state, request.name))

    return _run(work())


@with_broker_options
def status(request: RolloutStatusRequest) -> RolloutReport | RolloutList:
    async def work() -> RolloutReport | RolloutList:
        async with connected(request) as client:
            state = await read_fleet(client)
        if request.name:
            named(state, request.name)
            return seen_report(state, _known(state, request.name))
        found = sorted(state.rollouts().values(), key=lambda each: each.sequence)
        return RolloutList(tuple(seen_report(state, each) for each in found))

    return _run(work())


def seen_report(state: FleetState, rollout: Rollout) -> RolloutReport:
    """Returns the report of a rollout, with the devices' reports since its state was written."""
    now = seen(rollout, state.devices, time.time())
    report = report_of(now, signed=is_signed(state.states[rollout.name]))
    return report if report.model_name or rollout.search is not None else _named_by_devices(report, now, state)


def _named_by_devices(report: RolloutReport, rollout: Rollout, state: FleetState) -> RolloutReport:
    """Adds the name that a device reports of the bundle: the client that began the rollout has not read it."""
    for name in rollout.devices:
        device = state.devices.get(name)
        following = None if device is None or device.reported is None else device.reported.desired
        if device is None or following is None or following.sequence != rollout.sequence:
            continue
        found = device.deployment(following.deployment, following.model)
        if found is not None and found.id == following.deployment and found.release:
            return msgspec.structs.replace(report, model_name=printable(found.name), release=found.release)
    return report


@with_broker_options
def go_on(
    request: RolloutControlRequest, action: Literal["resume", "cancel", "rollback"], emit: Emit
) -> RolloutReport:
    rollout = _run(Driver(request, request.name, request.key, emit).go_on(action))
    return report_of(rollout) if action == "cancel" else _ended(rollout)


def report_of(rollout: Rollout, *, signed: bool = False) -> RolloutReport:
    wave_of = {name: number for number, wave in enumerate(rollout.waves, 1) for name in wave}
    found: dict[str, int] = {}
    for each in rollout.devices.values():
        found[each.state] = found.get(each.state, 0) + 1
    rows = tuple(
        RolloutDevice(
            *(name, wave_of[name], each.state, each.online, each.stage, each.reason, each.since_s, each.models),
            kind=each.kind,
        )
        for name, each in sorted(rollout.devices.items(), key=lambda item: wave_of[item[0]])
    )
    sizes = tuple(map(len, rollout.waves))
    bundle = next((each for each in rollout.desired.models if each.bundle), rollout.desired)
    search = rollout.search
    named = (bundle.bundle, bundle.digest) if search is None else (search.model, search.model_digest)
    return RolloutReport(
        *(rollout.name, *result(rollout), *named, rollout.wave, sizes),
        found,
        rows,
        models={each.model: each.bundle for each in rollout.desired.models},
        signed=signed,
        model_name=rollout.model_name,
        release=rollout.release,
        kinds=_kinds_of(rollout),
    )


def _kinds_of(rollout: Rollout) -> tuple[RolloutKind, ...]:
    if rollout.search is None:
        return ()
    sizes = Counter(each.kind for each in rollout.devices.values() if each.kind)
    return tuple(_kind_of(kind, size, rollout.kinds.get(kind)) for kind, size in sorted(sizes.items()))


def _kind_of(kind: str, devices: int, found: KindProgress | None) -> RolloutKind:
    if found is None:
        return RolloutKind(kind=kind, devices=devices)
    result = {name: getattr(found, name) for name in SearchResult.__struct_fields__}
    return RolloutKind(kind=kind, devices=devices, state=found.state, device=found.device, **result)


def _known(state: FleetState, name: str) -> Rollout:
    found = state.rollouts().get(name)
    if found is None:
        raise InputError(f"The state of the rollout '{name}' cannot be read.", "Check who writes to its topic.")
    return found


def _ended(rollout: Rollout) -> RolloutReport:
    """Raises VerificationError for a rollout that its failures have stopped, and for a rollback that failed."""
    if rollout.phase == "stopped":
        error = VerificationError(
            f"The rollout '{rollout.name}' stopped: {rollout.reason}",
            f"Return to the releases before with: edgeopt fleet rollout rollback {rollout.name}; see all devices "
            f"with: edgeopt fleet rollout status {rollout.name}",
        )
        error.code = "rollout-stopped"
        raise error
    if rollout.phase == "rollback-failed":
        error = VerificationError(
            f"The rollback of '{rollout.name}' failed: {rollout.reason}.",
            f"See all devices with: edgeopt fleet rollout status {rollout.name}; try the failed ones again with: "
            f"edgeopt fleet rollout rollback {rollout.name}; or start a rollout of the release that should serve.",
        )
        error.code = "rollback-failed"
        raise error
    return report_of(rollout)


def _models(request: RolloutStartRequest, digest: str) -> tuple[DesiredModel, ...]:
    """The models of one order of several; none for a single bundle. Raises UsageError for what cannot be meant."""
    if not request.also and not request.remove:
        return ()
    if not request.model or request.add:
        raise UsageError(
            "With --also or --remove, each model needs its name, and --add does not apply.",
            "Name the first one: --model NAME. A model that does not serve yet is added.",
        )
    if request.max_slowdown:
        raise UsageError(
            "--max-slowdown compares one model with its release before.",
            "Leave out --max-slowdown, --also and --remove.",
        )
    found = [DesiredModel(model=request.model, bundle=request.bundle, digest=digest.lower())]
    for text in request.also:
        model, equals, place = text.partition("=")
        url, at, digest = place.rpartition("@")
        if not (model and equals and url and at and is_digest(digest)):
            raise UsageError(
                f"'{text}' is not a model with its bundle and digest.",
                "Write, for instance: --also loudness=https://host/bundles/loudness.edgeopt@sha256:…",
            )
        found.append(DesiredModel(model=model, bundle=url, digest=digest.lower()))
    found += [DesiredModel(model=model, remove=True) for model in request.remove]
    names = [each.model for each in found]
    if (twice := next((name for name in names if names.count(name) > 1), "")) or "" in names:
        raise UsageError(
            f"The model '{twice}' is named twice." if twice else "A model to remove has no name.",
            "Name each model once.",
        )
    return tuple(found)


def _limits(request: RolloutStartRequest) -> Limits:
    return Limits(
        read_share(request.stop_at_failures, "--stop-at-failures"),
        request.device_timeout,
        read_share(request.max_errors, "--max-errors") if request.max_errors else None,
        request.min_agreement_db,
        read_share(request.max_slowdown, "--max-slowdown") if request.max_slowdown else None,
    )


def _search(request: RolloutStartRequest, emit: Emit) -> RolloutSearch | None:
    """Returns what each kind searches for; None for a bundle. Raises UsageError for what cannot be meant."""
    if not request.optimize:
        own = {"data", "store", "floor", "metric", "time_limit"}
        if flags := [each.flag for each in changed(request) if each.name in own]:
            raise UsageError(f"{flags[0]} is for --optimize only.", f"Leave out {flags[0]}, or add --optimize.")
        return None
    if request.also or request.remove:
        raise UsageError("--optimize is for a single model.", "Leave out --also and --remove.")
    if urlsplit(request.store).scheme not in {"http", "https"}:
        raise UsageError(
            "--optimize needs the address of a web server to which devices upload what they found.",
            "Pass --store https://…/; `put_to` in agent.toml must allow it on the devices.",
        )
    data, _, data_digest = request.data.partition("@sha256:")
    return RolloutSearch(
        model=request.bundle,
        model_digest=_digest_of_model(request, emit),
        data=data,
        data_digest=f"sha256:{data_digest}" if data_digest else digest_at(data, "data", emit) if data else "",
        store=f"{request.store.removesuffix('/')}/",
        time_limit_s=request.time_limit,
        floor=request.floor,
        metric=request.metric,
    )


def _digest_of_model(request: RolloutStartRequest, emit: Emit) -> str:
    digest = request.digest.lower()
    if digest and not is_digest(digest):
        raise UsageError("--digest must be 'sha256:' and 64 digits.", "Compute it with: sha256sum MODEL")
    if request.copy is None:
        return digest or digest_at(request.bundle, "model", emit)
    if not request.copy.is_file():
        raise UsageError(f"'{request.copy}' is not a file.", "Name a copy of the model with --copy.")
    found = f"sha256:{file_digest(request.copy)}"
    if digest not in {"", found}:
        raise UsageError(f"'{request.copy}' has another digest than --digest: {found}.", "Leave out one of both.")
    return found


def _planned(
    request: RolloutStartRequest,
    name: str,
    limits: Limits,
    known_bundle: RolloutBundle,
    state: FleetState,
    search: RolloutSearch | None,
) -> Rollout:
    _check_unused(state, name)
    names = selected(request.to, state.devices)
    waves = in_waves(request.waves, names, state.devices)
    highest = max(
        [
            *(state.devices[each].desired_sequence for each in names),
            *(
                reported.desired.sequence
                for each in names
                if (reported := state.devices[each].reported) is not None and reported.desired is not None
            ),
            *(other.sequence for other in state.rollouts().values()),
        ],
        default=0,
    )
    control_request, models = state.controls.get(name), _models(request, known_bundle.digest)
    rollout = Rollout(
        name=name,
        fleet=fleet_topics(request).fleet,
        sequence=now_sequence(highest),
        desired=DesiredBundle(
            bundle="" if models or search is not None else request.bundle,
            digest="" if models else known_bundle.digest,
            models=models,
            model="" if models else request.model,
            add=request.add,
            force=request.force,
            rename=request.rename,
            allow_downgrade=request.allow_downgrade,
            soak_s=request.soak_seconds,
            soak_requests=request.soak_requests,
        ),
        waves=waves,
        devices={
            each: _UNTOUCHED if search is None else DeviceProgress(kind=kind_of(state.devices[each]))
            for wave in waves
            for each in wave
        },
        search=search,
        limits=limits,
        control=0 if control_request is None else control_request.sequence,
        model_name=known_bundle.name,
        release=known_bundle.release,
    )
    # Each device needs room for what it was desired to serve and how it fares.
    if len(rollout_message(rollout, request.key)) + len(names) * _GROWTH_RESERVE_BYTES > _LARGEST_STATE_BYTES:
        raise UsageError(
            f"{len(names)} devices are too many for one rollout.", "Split them with --to, such as by a label."
        )
    return rollout


def _check_unused(state: FleetState, name: str) -> None:
    """Raises UsageError if the broker has a rollout of this name: a new one would replace its record."""
    if not state.states.get(name):
        return
    known = state.rollouts().get(name)
    if known is not None and known.phase in OPEN_PHASES:
        raise UsageError(
            f"The rollout '{name}' is {known.phase} already.",
            f"Continue it with: edgeopt fleet rollout resume {name}; or choose another --name.",
        )
    phase = "its state cannot be read" if known is None else f"it is {known.phase.replace('-', ' ')}"
    raise UsageError(
        f"There is a rollout '{name}' already; {phase}.",
        "Choose another --name, or leave it out: then the name is that of the bundle with the time.",
    )


def _run(work: Coroutine[Any, Any, Found]) -> Found:
    return asyncio.run(work)
