"""The request of each command, and what else speaks of its options."""

import inspect
import subprocess
import sys

import pytest

import edgeopt
from edgeopt.backends.options import MAX_THREADS
from edgeopt.bundle import request as replaying
from edgeopt.bundle import request as running
from edgeopt.commands import backends, demo, passes, presets, targets
from edgeopt.commands import optimize as optimizing
from edgeopt.commands import probe as probing
from edgeopt.commands import quantize as quantizing
from edgeopt.commands.analyze import request as analyzing
from edgeopt.commands.bench import api, request
from edgeopt.commands.compare import request as comparing
from edgeopt.commands.cost import request as costing
from edgeopt.commands.export import request as exporting
from edgeopt.commands.graph import request as drawing
from edgeopt.commands.ops import request as ops
from edgeopt.commands.report import request as reporting
from edgeopt.commands.simplify import request as simplify
from edgeopt.commands.track import request as tracking
from edgeopt.errors import UsageError, flag_of
from edgeopt.fleet import request as fleet
from edgeopt.fleet import rollout_request as rollouts
from edgeopt.importing import request as importing
from edgeopt.lab import request as lab
from edgeopt.options import check_range, option_named, options_of
from edgeopt.pipeline import objectives
from edgeopt.pipeline import request as settings
from edgeopt.pipeline.cache import request as cache
from edgeopt.registry import request as registry

REQUESTS = (
    optimizing.OptimizeSourceRequest,
    request.Request,
    quantizing.QuantizeOptions,
    quantizing.CalibrationOptions,
    simplify.SimplifyRequest,
    replaying.ReplayRequest,
    analyzing.AnalyzeRequest,
    importing.ImportRequest,
    comparing.ModelCompareRequest,
    drawing.GraphRequest,
    costing.CostRequest,
    running.RunRequest,
    request.WatchRequest,
    running.VerifyRequest,
    running.SignRequest,
    registry.PushRequest,
    registry.PullRequest,
    tracking.TrackRequest,
    probing.ProbeRequest,
    targets.ListRequest,
    targets.ShowRequest,
    targets.ValidateRequest,
    targets.NewRequest,
    presets.PresetsRequest,
    backends.BackendsRequest,
    ops.OpsRequest,
    passes.PassesRequest,
    reporting.ReportRequest,
    exporting.ExportRequest,
    replaying.ProfileExportRequest,
    replaying.ProfileImportRequest,
    replaying.ProfileDiffRequest,
    cache.ClearRequest,
    demo.DemoRequest,
    fleet.LookRequest,
    fleet.DeployRequest,
    fleet.RollbackRequest,
    fleet.FleetWatchRequest,
    lab.LabRunRequest,
    lab.LabShowRequest,
    rollouts.DevicesRequest,
    rollouts.RolloutStartRequest,
    rollouts.RolloutStatusRequest,
    rollouts.RolloutPauseRequest,
    rollouts.RolloutControlRequest,
)
"""Every one that a command is made of."""
FUNCTIONS = (
    (edgeopt.optimize, optimizing.OptimizeSourceRequest, optimizing.OptimizeSourceKeywords, {"model", "out"}),
    (edgeopt.quantize, quantizing.QuantizeOptions, quantizing.QuantizeKeywords, {"model", "out"}),
    (api.bench, request.Request, request.BenchKeywords, {"subject"}),
)
"""The functions that take them, the keywords by which type checkers know them, and what is given by place."""


@pytest.mark.parametrize("kind", REQUESTS)
def test_every_field_is_an_option_with_a_sentence(kind):
    for each in options_of(kind):
        assert each.help[-1:] in {".", "]"}, f"{kind.__name__}.{each.name}: {each.help!r}"
        if each.flags:
            assert flag_of(each.name) in {each.flag, f"{each.flag}s"}, "sentences find its flag by its name"


@pytest.mark.parametrize("kind", REQUESTS)
def test_no_number_of_a_request_may_be_endless(kind):
    for each in options_of(kind):
        for value in (float("inf"), float("nan")):
            if each.kind in {int, float}:
                with pytest.raises(UsageError, match="must be"):
                    check_range(each, value)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (request.Request, "rounds", 0),
        (request.Request, "rate_per_s", 1e12),
        (request.Request, "minutes", 1e9),
        (request.Request, "load_timeout_s", float("1e400")),
        (request.Request, "time_limit_s", 86401),
        (request.WatchRequest, "rate_per_s", 1e12),
        (analyzing.AnalyzeRequest, "threads", 100_000),
    ],
)
def test_what_no_measurement_can_do_is_out_of_range(kind, name, value):
    with pytest.raises(UsageError, match=f"{flag_of(name)} must be"):
        check_range(option_named(kind, name), value)


@pytest.mark.parametrize(("function", "kind", "wishes", "by_place"), FUNCTIONS)
def test_python_takes_what_the_command_line_takes(function, kind, wishes, by_place):
    fields = [each.name for each in options_of(kind)]
    assert {*wishes.__annotations__} == {*fields} - by_place
    given = inspect.signature(function).parameters
    assert [name for name in given if name in fields] == fields
    for each in options_of(kind):
        if not each.required:
            assert given[each.name].default == each.default


def test_reading_what_commands_can_be_asked_loads_nothing_slow():
    """All of it is read for `edgeopt --help`."""
    homes = sorted({kind.__module__ for kind in REQUESTS})
    slow = ("numpy", "onnx", "onnxruntime", "rich", "edgeopt.backends.base", "edgeopt.measure.contest")
    program = f"import sys, {', '.join(homes)}; print([name for name in {slow!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_loads_no_engine():
    """All commands are put together for it."""
    engines = tuple(f"edgeopt.{name}" for name in ("hw", "profiles", "backends", "graph", "measure", "quant"))
    program = "import sys; from edgeopt.cli import main; main.run(['--help']); "
    program += f"print([name for name in sys.modules if name.startswith({engines!r})])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "optimize" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_analyze_takes_as_many_threads_as_backends_do():
    assert option_named(analyzing.AnalyzeRequest, "threads").maximum == MAX_THREADS


def test_a_search_is_for_latency_by_itself():
    assert option_named(settings.OptimizeRequest, "objective").default == objectives.LATENCY
