"""`edgeopt schema`: JSON Schemas of what commands print with `--json`, and of the files that edgeopt writes."""

import importlib
from typing import Annotated, Any, NamedTuple

import msgspec

from edgeopt.errors import UsageError
from edgeopt.nearest import nearest
from edgeopt.options import argument

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


class SchemaRequest(msgspec.Struct, frozen=True):
    name: Annotated[str | None, argument("Record or file (default: list all).", metavar="[NAME]")] = None


class SchemaLine(msgspec.Struct, frozen=True):
    name: str
    title: str


class SchemaList(msgspec.Struct, frozen=True):
    """All records that have a schema, or the schema of one."""

    records: tuple[SchemaLine, ...]
    schema: dict[str, Any] | None = None


class RecordType(NamedTuple):
    """A record, and the types that it may have: `module:Type`."""

    name: str
    title: str
    types: tuple[str, ...]
    names: tuple[str, ...] = ()
    """Names that the modules of the types import for type checkers only."""


_DEVICE, _OUTCOME = "edgeopt.hw.device:Device", "edgeopt.pipeline.outcome:Outcome"
_ROLLOUTS = "edgeopt.fleet.rollout_commands"
_DEPLOYMENT = "edgeopt.fleet.records:FleetDeployment"
_QUANTIZED = "edgeopt.quant.measured.records:Quantized"
_BENCH = tuple(
    f"edgeopt.{place}"
    for place in (
        "measure.report:ContestReport",
        "measure.workloads.records:ColdReport",
        "measure.workloads.records:PacedReport",
        "measure.workloads.records:GenerateReport",
        "measure.workloads.records:SustainedReport",
        "measure.workloads.records:ConcurrencyReport",
        "commands.bench.sweep:SweepReport",
    )
)
FILES = (
    RecordType("events", "Each line that a command prints with --json", ("edgeopt.events:Event",)),
    RecordType("deployment.toml", "How a bundle runs", ("edgeopt.bundle.deployment:Deployment",)),
    RecordType("evidence.json", "The search that made a bundle", (_OUTCOME,)),
    RecordType(
        "target profile", "How to optimize for a class of devices", ("edgeopt.profiles.schema:TargetProfile",)
    ),
    RecordType("lab.toml", "Devices and models of a lab", ("edgeopt.lab.lab_file:LabFile",)),
    RecordType("preset", "What a family of models wants of a search", ("edgeopt.profiles.presets:Preset",)),
)
RESULTS = (
    RecordType("probe", "The device", (_DEVICE,)),
    RecordType(
        "targets",
        "Target profiles, and which one fits",
        ("edgeopt.commands.targets:TargetList",),
        ("edgeopt.profiles.targets:TargetVerdict",),
    ),
    RecordType(
        "targets-show",
        "Each value of a profile",
        ("edgeopt.commands.targets:Shown",),
        ("edgeopt.profiles:explain",),
    ),
    RecordType("targets-validate", "A checked profile", ("edgeopt.commands.targets:Validated",)),
    RecordType("targets-new", "A new profile", ("edgeopt.commands.targets:WrittenProfile",)),
    RecordType(
        "presets",
        "Presets, and which one fits a model",
        ("edgeopt.commands.presets:PresetList",),
        ("edgeopt.profiles.presets:PresetChoice",),
    ),
    RecordType("backends", "Installed runtimes", ("edgeopt.commands.backends:BackendList",)),
    RecordType("backend", "The options of one runtime", ("edgeopt.commands.backends:OptionList",)),
    RecordType("plugins", "Installed plug-ins and their state", ("edgeopt.commands.plugins:PluginList",)),
    RecordType("analyze", "Content, cost and coverage of a model", ("edgeopt.graph.analysis:Analysis",)),
    RecordType("graph", "The picture that was written", ("edgeopt.commands.graph.graph:GraphFile",)),
    RecordType("ops", "Conformance and speed of operators", ("edgeopt.commands.ops.case:Report",)),
    RecordType("passes", "Graph rewrites", ("edgeopt.commands.passes:PassList",)),
    RecordType("import", "The imported model and its proof", ("edgeopt.importing.importer:Imported",)),
    RecordType("lab", "Models on devices", ("edgeopt.lab.records:LabResults",)),
    RecordType("optimize", "Winner, proof and all candidates", (_OUTCOME,)),
    RecordType(
        "optimize-device", "The plan for an absent device", ("edgeopt.commands.predict.records:PredictedOutcome",)
    ),
    RecordType("quantize", "The quantized model, its plan and proof", (_QUANTIZED,)),
    RecordType("compare-calibrations", "Calibration methods compared", (_QUANTIZED,)),
    RecordType(
        "simplify", "The rewritten model, ledger and proof", ("edgeopt.commands.simplify.simplify:Simplified",)
    ),
    RecordType("compare", "Two models compared", ("edgeopt.commands.compare.records:ModelComparison",)),
    RecordType("bench", "A contest; one of several kinds, by --duty and --sweep", _BENCH),
    RecordType(
        "watch",
        "A watch of a model, or of an agent",
        ("edgeopt.measure.watch:WatchReport", "edgeopt.fleet.monitor:WatchedAgent"),
    ),
    RecordType("run", "Outputs that were written", ("edgeopt.bundle.runtime.offline:OfflineRun",)),
    RecordType("generate", "Text that was generated", ("edgeopt.bundle.runtime.prompt_run:PromptRun",)),
    RecordType("verify", "A checked bundle", ("edgeopt.bundle.runtime.check:BundleCheck",)),
    RecordType("report", "Reports that were written", ("edgeopt.commands.report.facts:Reports",)),
    RecordType("cost", "Costs by device", ("edgeopt.commands.cost.figures:CostReport",)),
    RecordType("export", "The exported folder", ("edgeopt.commands.export.export:Exported",)),
    RecordType("export-formats", "Formats of exports", ("edgeopt.commands.export.export:ExportFormats",)),
    RecordType("sign", "A signed bundle", ("edgeopt.bundle.sign:Signed",)),
    RecordType("new-key", "A new pair of keys", ("edgeopt.bundle.sign:NewKey",)),
    RecordType("push", "A bundle in a registry", ("edgeopt.registry.push:PushedBundle",)),
    RecordType("pull", "A bundle that came from a registry", ("edgeopt.registry.pull:PulledBundle",)),
    RecordType("track", "Runs that were logged to MLflow", ("edgeopt.commands.track.track:TrackedRuns",)),
    RecordType("replay", "A rebuilt bundle", ("edgeopt.pipeline.replay:Rebuilt",)),
    RecordType("profile-export", "A deployment profile", ("edgeopt.commands.profile:ExportedProfile",)),
    RecordType("profile-import", "What a deployment profile contains", ("edgeopt.commands.profile:Imported",)),
    RecordType("profile-diff", "Two deployment profiles compared", ("edgeopt.commands.profile:Difference",)),
    RecordType("pair", "A pairing with an agent", ("edgeopt.fleet.pairing:Paired",)),
    RecordType("status", "What an agent serves", ("edgeopt.fleet.records:Status",)),
    RecordType("releases", "The releases on a device", ("edgeopt.fleet.records:Releases",)),
    RecordType(
        "deploy",
        "A deployment, or the plan of one (--dry-run)",
        (_DEPLOYMENT, "edgeopt.fleet.records:DeployPlan"),
    ),
    RecordType("rollback", "A rollback", (_DEPLOYMENT,)),
    RecordType("cancel", "A cancelled deployment", (_DEPLOYMENT,)),
    RecordType("remove", "A removed model", ("edgeopt.fleet.records:Removed",)),
    RecordType("discover", "Agents in the local network", ("edgeopt.fleet.discovery:DiscoveredAgents",)),
    RecordType("devices", "Devices of a fleet on a broker", ("edgeopt.fleet.devices:FleetDevices",)),
    RecordType("rollout", "A rollout, or all of them", (f"{_ROLLOUTS}:RolloutReport", f"{_ROLLOUTS}:RolloutList")),
    RecordType("cache", "Searches in the cache", ("edgeopt.pipeline.cache.user:Listing",)),
    RecordType("cache-clear", "What was removed from the cache", ("edgeopt.pipeline.cache.user:Cleared",)),
    RecordType("demo", "The search on the built-in sample", ("edgeopt.commands.demo:Demo",), (_DEVICE, _OUTCOME)),
    RecordType("schema", "The records that have a schema", ("edgeopt.commands.schema:SchemaList",)),
)


def schemas(request: SchemaRequest) -> SchemaList:
    records = (*FILES, *RESULTS)
    lines = tuple(SchemaLine(each.name, each.title) for each in records)
    if request.name is None:
        return SchemaList(lines)
    found = next((each for each in records if each.name == request.name), None)
    if found is None:
        names = [each.name for each in records]
        raise UsageError(
            f"There is no record '{request.name}'.",
            nearest(request.name, names, "`edgeopt schema` lists all of them."),
        )
    return SchemaList((SchemaLine(found.name, found.title),), schema_of(found))


def schema_of(record: RecordType) -> dict[str, Any]:
    """Returns the JSON Schema of a record; several types are alternatives."""
    roots, components = msgspec.json.schema_components(types_of(record), ref_template="#/$defs/{name}")
    alternatives = list(roots)
    root = alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}
    return {"$schema": _DRAFT, "title": record.title, **root, "$defs": components}


def types_of(record: RecordType) -> list[Any]:
    """Returns the types, after adding to their modules the names imported for type checkers only."""
    for place in record.names:
        name = place.partition(":")[2]
        for each in record.types:
            vars(importlib.import_module(each.partition(":")[0])).setdefault(name, _named(place))
    return [_named(place) for place in record.types]


def _named(place: str) -> Any:  # noqa: ANN401 - a type or a module
    module, _, name = place.partition(":")
    found = getattr(importlib.import_module(module), name, None)
    return importlib.import_module(f"{module}.{name}") if found is None else found
