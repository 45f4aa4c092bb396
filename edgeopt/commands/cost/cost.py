"""`edgeopt cost`: measurements, old or fresh, at a price."""

import re
from collections.abc import Sequence
from pathlib import Path

from edgeopt.bundle.deployment import SUFFIX
from edgeopt.bundle.read import is_bundle
from edgeopt.commands.bench.bench import bench
from edgeopt.commands.bench.request import Request as BenchRequest
from edgeopt.commands.cost.advice import baselines_disagree
from edgeopt.commands.cost.figures import cost_of
from edgeopt.commands.cost.measured import of_bundle, of_report, of_saved_run
from edgeopt.commands.cost.records import Cost, CostReport, Measured, Terms
from edgeopt.commands.cost.request import Request, check
from edgeopt.commands.cost.terms import check_terms, read_load, read_prices
from edgeopt.commands.cost.words import number
from edgeopt.errors import UsageError
from edgeopt.events import Emit, Progress

_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]*)=(.+)")
_ALIKE = 1.05
"""Costs of different devices were not measured interleaved: within this, neither is called cheaper."""


def cost(request: Request, emit: Emit) -> CostReport:
    """What the work costs on each device, and whether changing to it is worth that; raises what is wrong first."""
    check(request)
    terms = check_terms(_terms(request))
    named = _named(request.subjects)
    prices = read_prices(request.price_per_hour, list(named))
    costs = []
    for position, (name, subject) in enumerate(named.items()):
        if request.measure and len(named) > 1:
            emit(Progress("measuring", name, position, len(named)))
        costs.append(cost_of(name, _measured(subject, request, emit), prices[name], terms))
    return CostReport(tuple(costs), terms, _cheapest(costs, terms), _notes(costs))


def _terms(request: Request) -> Terms:
    return Terms(
        currency=request.currency,
        utilization_percent=request.utilization,
        hours_per_day=request.hours_per_day,
        batch=request.batch,
        load_per_s=None if request.load is None else read_load(request.load),
        devices=request.devices,
        engineering_hours=request.engineering_hours,
        hourly_rate=request.rate,
        pay_back_months=request.pay_back_months,
    )


def _named(subjects: Sequence[str]) -> dict[str, str]:
    """A name for each, to price and to print it by."""
    if not subjects:
        raise UsageError("Missing argument 'BUNDLE|BENCH.json'.", "See: edgeopt cost --help")
    found: dict[str, str] = {}
    for subject in subjects:
        given = None if Path(subject).exists() else _NAMED.fullmatch(subject)
        what = given[2] if given else subject
        name = given[1] if given else Path(what.partition("@")[0]).name.partition(".")[0] or what
        if name in found:
            raise UsageError(
                f"Two devices are called '{name}': '{found[name]}' and '{what}'.",
                f"Name them: NAME={what}",
            )
        found[name] = what
    return found


def _measured(subject: str, request: Request, emit: Emit) -> Measured:
    path = Path(subject)
    bundle = is_bundle(path) or path.suffix == SUFFIX
    if request.measure:
        return _measured_now(subject, request, emit)
    if bundle:
        if request.against is not None:
            raise UsageError(
                f"The evidence of the bundle '{path.name}' has one baseline, that of its search.",
                "Leave out --against, or measure against another with --measure.",
            )
        return of_bundle(path)
    if path.suffix in {".onnx", ".xml", ".tflite"}:
        raise UsageError(
            f"'{subject}' is a model without a measurement.",
            "Add --measure, or give a report of edgeopt bench --save.",
        )
    return of_saved_run(path, request.against)


def _measured_now(subject: str, request: Request, emit: Emit) -> Measured:
    if Path(subject).suffix == ".json" and not subject.endswith(".null.json"):
        raise UsageError(
            f"'{subject}' is a saved measurement, and --measure measures now.",
            "Give a bundle or model, or leave --measure out.",
        )
    asked = BenchRequest(
        subject=subject,
        against=() if request.against is None else (request.against,),
        data=request.data,
        time_limit_s=request.time_limit_s,
        concurrency=request.concurrency,
        processes=request.processes,
    )
    # The other side has a name of its own in the report; there is only one.
    return of_report(bench(asked, emit), subject, "measured now", None)


def _cheapest(costs: Sequence[Cost], terms: Terms) -> str:
    """Which device does the work for least, in a sentence; empty for one alone."""
    if len(costs) < 2:
        return ""
    monthly = terms.load_per_s is not None
    values = {
        each.name: each.monthly_cost.value if monthly and each.monthly_cost else each.million_inferences
        for each in costs
    }
    (name, least), *others = sorted(values.items(), key=lambda item: item[1])
    per = "a month for this load" if monthly else "for a million inferences"
    told = ", ".join(f"{other} {terms.currency} {number(value)}" for other, value in others)
    alike = [other for other, value in others if value < _ALIKE * least]
    said = f"{' and '.join([name, *alike])} cost about the same" if alike else f"{name} is the cheapest"
    return (
        f"{said}: {terms.currency} {number(least)} {per} ({told}). Devices cannot be measured "
        "interleaved, so this has no interval."
    )


def _notes(costs: Sequence[Cost]) -> tuple[str, ...]:
    """What to know of the figures, once for all devices."""
    notes = [f"{each.name}: {note}" for each in costs for note in each.measured.notes]
    guessed = [each.name for each in costs if not each.measured.counted]
    if guessed:
        notes.append(
            f"The throughput of {', '.join(guessed)} is 1 / median latency, one request at a time: a "
            "device may do more with concurrent requests or batches. Measure that with "
            "--measure --concurrency 1,2,4."
        )
    notes += [f"{each.name}: {note}" for each in costs if (note := baselines_disagree(each.measured))]
    return tuple(notes)
