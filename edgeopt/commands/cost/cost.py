"""`edgeopt cost`: measurements, old or fresh, at a price."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from edgeopt.bundle.deployment import SUFFIX
from edgeopt.bundle.read import is_bundle, read_bundle
from edgeopt.commands.bench.bench import Report, bench
from edgeopt.commands.bench.request import Request as BenchRequest
from edgeopt.commands.bench.saved import read_result
from edgeopt.commands.cost.figures import (
    CostReport,
    Evidence,
    MeasuredRun,
    PriceTerms,
    RunCost,
    Span,
    baselines_disagree,
    cost_of,
    number,
)
from edgeopt.commands.cost.request import CostRequest, check
from edgeopt.decoding import thread_safe
from edgeopt.errors import BundleError, InputError, UsageError
from edgeopt.events import Emit, Progress
from edgeopt.measure.messages import Calls
from edgeopt.measure.report import Comparison, ContestReport, SideReport
from edgeopt.measure.workloads.records import ConcurrencyReport, ConcurrencySide, SustainedReport, SustainedSide
from edgeopt.nearest import near

_ALONE = "one request at a time"
_AGAIN = "Measure both together: edgeopt bench MODEL --against OTHER --save FILE"
_KINDS: dict[str, type[ContestReport] | type[ConcurrencyReport] | type[SustainedReport]] = {
    "steady": ContestReport,
    "concurrent": ConcurrencyReport,
    "sustained": SustainedReport,
}


def of_bundle(path: Path) -> MeasuredRun:
    """Returns the measurement in a bundle's proof; raises BundleError if the bundle has no valid one."""
    deployment = read_bundle(path).deployment
    proof, replayed = deployment.evidence, deployment.replayed
    if replayed is not None and not replayed.measured:
        raise BundleError(
            f"The bundle '{path.name}' was replayed and not measured again; its evidence is of the first one.",
            "Measure it now with --measure, or replay it with --measure.",
        )
    if proof is None:
        raise BundleError(
            f"The bundle '{path.name}' holds no evidence of its speed.",
            "Measure it now with --measure, or make it again with edgeopt optimize.",
        )
    figures = (
        proof.baseline_ms,
        proof.latency_ms,
        proof.speedup,
        *(() if proof.load is None else (proof.load.samples_per_s, proof.load.baseline_samples_per_s)),
    )
    if not all(value > 0 and math.isfinite(1e3 / value) for value in figures):
        raise BundleError(
            f"The evidence of the bundle '{path.name}' is invalid: a time or speed-up is not above 0.",
            "Measure it now with --measure, or make it again with edgeopt optimize.",
        )
    load = proof.load
    return MeasuredRun(
        source=str(path),
        evidence="bundle",
        side=f"{path.name} on {deployment.run.backend}",
        runs_per_s=1e3 / proof.latency_ms if load is None else load.samples_per_s,
        how=_ALONE if load is None else str(Calls(load.callers, load.batch)),
        counted=load is not None,
        baseline=proof.baseline,
        baseline_runs_per_s=1e3 / proof.baseline_ms if load is None else load.baseline_samples_per_s,
        speedup=Span(proof.speedup, proof.speedup_low, proof.speedup_high),
        verdict=proof.verdict,
        device=dict(deployment.device),
        measured_at=deployment.created,
    )


def of_saved_run(path: Path, against: str | None) -> MeasuredRun:
    """Reads a run from `edgeopt bench --save` or `--json`; raises InputError if it has no throughput."""
    found = read_result(path)
    kind = _KINDS.get(str(found.get("duty", "")))
    if kind is None or "sides" not in found:
        raise InputError(
            f"'{path}' has no throughput of runs: cold starts, paced runs, answers of language models and sweeps "
            "do not measure it.",
            "Save an interleaved run, with --concurrency, or with --duty sustained.",
        )
    try:
        report = msgspec.convert(found, thread_safe(kind))
    except msgspec.ValidationError as error:
        raise InputError(f"'{path}' is not a saved run: {error}.", _AGAIN) from error
    return _of_report(report, str(path), "saved run", against)


def _of_report(report: Report, source: str, evidence: Evidence, against: str | None) -> MeasuredRun:
    """Returns the first side of a report against its baseline: the named side, else the first one it ran with."""
    if not isinstance(report, ContestReport | ConcurrencyReport | SustainedReport):
        raise InputError(f"'{source}' has no throughput.", _AGAIN)
    subject, baseline = _sides([side.name for side in report.sides], source, against)
    sides = {side.name: _throughput(side) for side in report.sides}
    own, other = sides[subject], sides[baseline] if baseline else None
    if own.per_s is None or own.failure:
        why = (own.failure or "it did not run").rstrip(".")
        raise InputError(f"In '{source}', {subject} did not finish: {why}.", "Measure again.")
    if not (math.isfinite(own.per_s) and own.per_s > 0):
        raise InputError(f"'{source}' has no throughput: no run was completed.", "Measure again.")
    if not isinstance(report, SustainedReport):
        speedup, verdict, notes = _compared(report.comparisons, subject, baseline)
    else:
        note = f"Sides of a sustained run are not interleaved, so the saving over {baseline} is unknown."
        speedup, verdict, notes = None, "", (note,) if baseline else ()
    if isinstance(report, ConcurrencyReport) and other is not None and other.per_s is not None:
        notes = (f"The baseline has the highest throughput with {other.how}.", *notes)
    return MeasuredRun(
        source=source,
        evidence=evidence,
        side=subject,
        runs_per_s=own.per_s,
        how=own.how,
        counted=True,
        baseline=baseline,
        baseline_runs_per_s=other.per_s if other else None,
        speedup=speedup,
        verdict=verdict,
        device=report.device if isinstance(report, ContestReport) else {},
        measured_at=report.measured_at if isinstance(report, ContestReport) else "",
        notes=(*notes, *report.warnings),
    )


class _Throughput(NamedTuple):
    per_s: float | None
    how: str = _ALONE
    failure: str | None = None
    """Reason why the side cannot be used."""


def _throughput(side: SideReport | ConcurrencySide | SustainedSide) -> _Throughput:
    """Returns a side's highest throughput: alone, on several threads, or in several processes."""
    if isinstance(side, SideReport):
        return _Throughput(side.figures.throughput_per_s if side.figures else None, failure=side.failure)
    if isinstance(side, SustainedSide):
        how = f"{_ALONE}, sustained for {side.seconds / 60:.3g} min"
        return _Throughput(side.throughput_per_s, how, side.failure if side.throughput_per_s is None else None)
    ran = [level for level in side.levels if level.throughput_per_s is not None]
    if not ran:
        return _Throughput(None, failure=next((level.failure for level in side.levels if level.failure), None))
    best = max(ran, key=lambda level: level.throughput_per_s or 0.0)
    how = _ALONE if best.count == 1 else f"{best.count} concurrent {best.kind}"
    return _Throughput(best.throughput_per_s, how)


def _sides(names: list[str], source: str, against: str | None) -> tuple[str, str]:
    """Returns the first side, and the baseline: empty if there is none."""
    if not names:
        raise InputError(f"In '{source}', no side ran.", "Measure again.")
    if against is None:
        return names[0], names[1] if len(names) > 1 else ""
    if against not in names[1:]:
        others = ", ".join(f"'{name}'" for name in names[1:]) or "none"
        raise InputError(
            f"{names[0]} was not measured against '{against}' in '{source}'; its other sides: {others}.",
            "Name one of them with --against, or measure again.",
        )
    return names[0], against


def _compared(
    comparisons: tuple[Comparison, ...], subject: str, baseline: str
) -> tuple[Span | None, str, tuple[str, ...]]:
    """Returns the speed-up with its sentence, or the reason why there is none."""
    if not baseline:
        return None, "", ()
    found = next((each for each in comparisons if (each.first, each.second) == (subject, baseline)), None)
    if found is None:
        return None, "", (f"There is no speed-up over {baseline}: the two never ran in the same round.",)
    ratio = found.speedup
    if ratio is None:
        return None, found.verdict, (f"There is no speed-up over {baseline}: {found.verdict}.",)
    return Span(ratio.median, ratio.low, ratio.high), found.verdict, ()


_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]*)=(.+)")
_ALIKE = 1.05
"""Costs of different devices were not measured interleaved: within this, neither is called cheaper."""
# ISO 4217, those in use as money.
_CODES = (
    "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD "
    "CDF CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ "
    "GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR "
    "LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN "
    "PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB "
    "TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWG"
)
CURRENCIES = tuple(_CODES.split())
_UNITS_S = {"s": 1, "min": 60, "h": 3600, "day": 86400}
_FACTORS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_LOAD = re.compile(r"([0-9.]+(?:e[0-9]+)?)\s*([kMG]?)(?:\s*/\s*(s|min|h|day))?")
_LOAD_HINT = "Give --load 5000/s; also /min, /h or /day, and k, M or G before it: 20M/day."


def cost(request: CostRequest, emit: Emit) -> CostReport:
    """Returns the cost of the work on each device, and whether changing to it pays; checks the request first."""
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


def _terms(request: CostRequest) -> PriceTerms:
    return PriceTerms(
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
    """Returns each subject by its name, for prices and for the report."""
    if not subjects:
        raise UsageError("Missing argument 'BUNDLE|BENCH.json'.", "See: edgeopt cost --help")
    found: dict[str, str] = {}
    for subject in subjects:
        match = None if Path(subject).exists() else _NAMED.fullmatch(subject)
        what = match[2] if match else subject
        name = match[1] if match else Path(what.partition("@")[0]).name.partition(".")[0] or what
        if name in found:
            raise UsageError(
                f"Two devices are called '{name}': '{found[name]}' and '{what}'.",
                f"Name them: NAME={what}",
            )
        found[name] = what
    return found


def _measured(subject: str, request: CostRequest, emit: Emit) -> MeasuredRun:
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


def _measured_now(subject: str, request: CostRequest, emit: Emit) -> MeasuredRun:
    if Path(subject).suffix == ".json" and not subject.endswith(".null.json"):
        raise UsageError(
            f"'{subject}' is a saved measurement, and --measure measures now.",
            "Give a bundle or model, or leave --measure out.",
        )
    bench_request = BenchRequest(
        subject=subject,
        against=() if request.against is None else (request.against,),
        data=request.data,
        pre=request.pre,
        duty="steady",
        time_limit_s=request.time_limit_s,
        concurrency=request.concurrency,
        processes=request.processes,
    )
    # The other side has a name of its own in the report; there is only one.
    return _of_report(bench(bench_request, emit), subject, "measured now", None)


def _cheapest(costs: Sequence[RunCost], terms: PriceTerms) -> str:
    """Names the cheapest device in a sentence; empty for a single device."""
    if len(costs) < 2:
        return ""
    monthly = terms.load_per_s is not None
    values = {
        each.name: each.monthly_cost.value if monthly and each.monthly_cost else each.million_inferences
        for each in costs
    }
    (name, minimum), *others = sorted(values.items(), key=lambda item: item[1])
    per = "a month for this load" if monthly else "for a million inferences"
    others_listed = ", ".join(f"{other} {terms.currency} {number(value)}" for other, value in others)
    alike = [other for other, value in others if value < _ALIKE * minimum]
    winner = f"{' and '.join([name, *alike])} cost about the same" if alike else f"{name} is the cheapest"
    return (
        f"{winner}: {terms.currency} {number(minimum)} {per} ({others_listed}). Devices cannot be measured "
        "interleaved, so this has no interval."
    )


def _notes(costs: Sequence[RunCost]) -> tuple[str, ...]:
    """Returns notes on the figures, once for all devices."""
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


def read_load(text: str) -> float:
    """Reads `5000/s`, `20M/day` or `5000` as inferences per second."""
    found = _LOAD.fullmatch(text.strip())
    try:
        value = float(found[1]) * _FACTORS[found[2]] / _UNITS_S[found[3] or "s"] if found else math.nan
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"'{text}' is not a load.", _LOAD_HINT)
    return value


def read_prices(texts: Sequence[str], names: Sequence[str]) -> dict[str, float]:
    """Reads the price of each device: one for all, or `NAME=PRICE`."""
    hint = "Give one for all, --price-per-hour 0.35, or one for each: --price-per-hour NAME=0.35."
    if not texts:
        raise UsageError("Missing option '--price-per-hour'.", hint)
    common: float | None = None
    own: dict[str, float] = {}
    for text in texts:
        name, sign, price = text.rpartition("=")
        if sign and name not in names:
            raise UsageError(f"There is no device '{name}' to price.", f"The devices are: {', '.join(names)}.")
        if (name in own) if sign else (common is not None):
            raise UsageError(f"The price {'of ' + repr(name) if sign else 'for all'} is given twice.", hint)
        if sign:
            own[name] = _price(price)
        else:
            common = _price(text)
    missing = [name for name in names if name not in own]
    if missing and common is None:
        raise UsageError(f"There is no price for '{missing[0]}'.", f"Add --price-per-hour {missing[0]}=PRICE.")
    return {name: own.get(name, common or 0.0) for name in names}


def _price(text: str) -> float:
    try:
        price = float(text)
    except ValueError:
        raise UsageError(
            f"'{text}' is not a price.", "Give a number such as 0.35, and the currency with --currency EUR."
        ) from None
    return _positive(price, "--price-per-hour")


def _positive(value: float, option: str, zero: bool = False) -> float:
    if not (math.isfinite(value) and (value > 0 or (zero and value == 0))):
        raise UsageError(
            f"{option} must be {'0 or more' if zero else 'above 0'}, not {value:g}.", "See: edgeopt cost --help"
        )
    return value


def check_terms(terms: PriceTerms) -> PriceTerms:
    """Returns valid terms, with the currency in capitals; raises UsageError for others."""
    currency = terms.currency.upper()
    if currency not in CURRENCIES:
        meant = ", ".join(near(currency, CURRENCIES, 3))
        hint = f" Perhaps {meant}?" if meant else ""
        raise UsageError(
            f"There is no currency '{terms.currency}'.",
            f"Give the three letters of ISO 4217, as in --currency EUR.{hint}",
        )
    for name, value, maximum in (
        ("--utilization", terms.utilization_percent, 100.0),
        ("--hours-per-day", terms.hours_per_day, 24.0),
    ):
        if _positive(value, name) > maximum:
            raise UsageError(f"{name} is at most {maximum:g}, not {value:g}.", "See: edgeopt cost --help")
    _positive(terms.pay_back_months, "--pay-back-months")
    if terms.batch < 1:
        raise UsageError(
            f"--batch must be 1 or more, not {terms.batch}.", "It is the number of inferences per run."
        )
    if terms.devices is not None and terms.devices < 1:
        raise UsageError(
            f"--devices must be 1 or more, not {terms.devices}.",
            "It is the number of devices that do the work now.",
        )
    if terms.devices is not None and terms.load_per_s is not None:
        raise UsageError(
            "--load and --devices exclude each other.",
            "Give the load, or the number of devices that do it now with the baseline.",
        )
    costs: Mapping[str, float | None] = {
        "--engineering-hours": terms.engineering_hours,
        "--rate": terms.hourly_rate,
    }
    for option, other in (("--engineering-hours", "--rate"), ("--rate", "--engineering-hours")):
        spent = costs[option]
        if spent is None:
            continue
        _positive(spent, option, zero=True)
        if costs[other] is None:
            raise UsageError(f"{option} needs {other}.", "Give both: --engineering-hours 40 --rate 90.")
    return msgspec.structs.replace(terms, currency=currency)
