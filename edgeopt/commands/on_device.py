"""`edgeopt probe`, `bench` and `optimize` with `--on DEVICE`: the whole command runs there.

The facts, the trials and the proof are then the device's own; what a bundle or a report says of its device is
written there.
"""

from typing import TYPE_CHECKING

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.errors import UsageError
from edgeopt.events import Emit, Log
from edgeopt.measure.stats import with_open_ends
from edgeopt.remote.address import AgentAddress, SshAddress, read_address
from edgeopt.remote.command import RemoteCommand
from edgeopt.remote.files import refuse_local

if TYPE_CHECKING:
    from edgeopt.commands.bench.bench import Report
    from edgeopt.commands.bench.request import Request
    from edgeopt.commands.optimize import OptimizeSourceRequest
    from edgeopt.commands.probe import ProbeRequest
    from edgeopt.hw.device import Device
    from edgeopt.pipeline.outcome import Outcome

_NOTHING: frozenset[str] = frozenset()
_MEASURING = ("optimize", "cpu")
"""Extras that trials need."""


def device_at(text: str) -> SshAddress | AgentAddress:
    """Returns the device that `--on` names; raises UsageError for an invalid address."""
    return read_address(text)


def probe_on(device: str, request: "ProbeRequest", emit: Emit) -> "Device":
    from edgeopt.commands.probe import check
    from edgeopt.hw.device import Device
    from edgeopt.hw.recording import check_folder

    check(request)
    refuse_local(
        request,
        {
            "device": "A record is read here: leave out --on.",
            "root": "A recording is read here: leave out --on.",
        },
    )
    if request.record is not None:
        check_folder(request.record)
    extras = _MEASURING if request.deep else ()
    command = RemoteCommand(device_at(device), "probe", extras)
    shown = msgspec.structs.replace(request, explain=False)  # a matter of the view
    return msgspec.convert(command.run(shown, frozenset({"record"}), emit), thread_safe(Device), str_keys=True)


def bench_on(device: str, request: "Request", emit: Emit) -> "Report":
    refuse_local(
        request,
        {
            "baseline_command": "The program is on this machine: leave out --on.",
            "python": "The environment is on this machine: import the model first with edgeopt import.",
        },
    )
    _refuse_sources(request.subject, *request.against)
    _ = request.limits
    command = RemoteCommand(device_at(device), "bench", _MEASURING)
    if request.save is not None and request.save.is_dir():
        raise UsageError(f"'{request.save}' is a folder.", "Name a file in it for --save.")
    data = command.run(request, frozenset({"save"}), emit, is_record=True)
    return msgspec.convert(with_open_ends(data), thread_safe(_kind_of_report(data)), str_keys=True)


def _kind_of_report(data: dict[str, object]) -> "type[Report]":
    from edgeopt.commands.bench.sweep import SweepReport
    from edgeopt.measure.report import ContestReport
    from edgeopt.measure.workloads.records import (
        ColdReport,
        ConcurrencyReport,
        GenerateReport,
        PacedReport,
        SustainedReport,
    )

    if "points" in data:
        return SweepReport
    kinds: dict[str, type[Report]] = {
        "cold": ColdReport,
        "paced": PacedReport,
        "generate": GenerateReport,
        "sustained": SustainedReport,
        "concurrent": ConcurrencyReport,
    }
    return kinds.get(str(data.get("duty")), ContestReport)


class OptimizeOn:
    """A search on a device; `interrupt` is what the first Ctrl-C does."""

    def __init__(self, device: str) -> None:
        self._command = RemoteCommand(device_at(device), "optimize", _MEASURING)

    def interrupt(self) -> bool:
        return self._command.interrupt()

    def run(self, request: "OptimizeSourceRequest", emit: Emit) -> "Outcome":
        from edgeopt.bundle.deployment import machine_of
        from edgeopt.bundle.runtime.locate import encoder_beside
        from edgeopt.bundle.write import check_target, replace_document
        from edgeopt.commands.report.evidence import FILE
        from edgeopt.pipeline.outcome import Outcome
        from edgeopt.pipeline.request import check, inputs_of

        if encoder_beside(request.model) is not None:
            raise UsageError(
                "--on does not copy the encoder and the tokenizer of a speech model.",
                "Copy the files to the device, and run edgeopt optimize there.",
            )
        if request.metric is not None and ":" in request.metric and ".py:" not in request.metric:
            raise UsageError(
                f"The module of the metric '{request.metric}' is not on the device.",
                "Write the function into one file, which is copied there: --metric file.py:function",
            )
        check(request)
        if request.is_of_source:
            raise _no_source(str(request.model))
        check_target(request.out.absolute(), inputs_of(request))
        data = self._command.run(request, frozenset({"out"}), emit)
        found = msgspec.convert(with_open_ends(data), thread_safe(Outcome), str_keys=True)
        outcome = msgspec.structs.replace(found, bundle=str(request.out))
        replace_document(request.out.absolute(), FILE, outcome)  # it named its place on the device
        if outcome.device is not None:
            machine = machine_of(outcome.device)
            where = "; ".join(machine[part] for part in ("host", "cpu", "limits") if part in machine)
            emit(Log("info", f"Measured on {self._command.address.shown}: {where}."))
        return outcome


def _refuse_sources(*sides: str | None) -> None:
    from edgeopt.importing.sources import is_source

    for side in sides:
        if side is not None and is_source(side):
            raise _no_source(side)


def _no_source(name: str) -> UsageError:
    return UsageError(
        f"'{name}' is a model of another framework, and --on takes ONNX models and bundles.",
        f"Import it here first: edgeopt import {name} -o MODEL.onnx",
    )
