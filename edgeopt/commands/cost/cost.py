"""`edgeopt cost`: measurements, old or fresh, at a price."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from edgeopt.bundle.deployment import SUFFIX
from edgeopt.bundle.read import is_bundle
from edgeopt.commands.bench.bench import bench
from edgeopt.commands.bench.request import Request as BenchRequest
from edgeopt.commands.cost.figures import (
    Cost,
    CostReport,
    Measured,
    Terms,
    baselines_disagree,
    cost_of,
    number,
)
from edgeopt.commands.cost.measured import of_bundle, of_report, of_saved_run
from edgeopt.commands.cost.request import Request, check
from edgeopt.errors import UsageError
from edgeopt.events import Emit, Progress
from edgeopt.nearest import near

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


def read_load(text: str) -> float:
    """`5000/s`, `20M/day` or `5000` as inferences a second."""
    found = _LOAD.fullmatch(text.strip())
    try:
        value = float(found[1]) * _FACTORS[found[2]] / _UNITS_S[found[3] or "s"] if found else math.nan
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"'{text}' is not a load.", _LOAD_HINT)
    return value


def read_prices(texts: Sequence[str], names: Sequence[str]) -> dict[str, float]:
    """The price of each device: one for all, or `NAME=PRICE`."""
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


def check_terms(terms: Terms) -> Terms:
    """The same, where it makes sense; raises UsageError."""
    currency = terms.currency.upper()
    if currency not in CURRENCIES:
        meant = ", ".join(near(currency, CURRENCIES, 3))
        hint = f" Perhaps {meant}?" if meant else ""
        raise UsageError(
            f"There is no currency '{terms.currency}'.",
            f"Give the three letters of ISO 4217, as in --currency EUR.{hint}",
        )
    for name, value, most in (
        ("--utilization", terms.utilization_percent, 100.0),
        ("--hours-per-day", terms.hours_per_day, 24.0),
    ):
        if _positive(value, name) > most:
            raise UsageError(f"{name} is at most {most:g}, not {value:g}.", "See: edgeopt cost --help")
    _positive(terms.pay_back_months, "--pay-back-months")
    if terms.batch < 1:
        raise UsageError(f"--batch must be 1 or more, not {terms.batch}.", "It is how many inferences a run does.")
    if terms.devices is not None and terms.devices < 1:
        raise UsageError(f"--devices must be 1 or more, not {terms.devices}.", "It is how many do the work now.")
    if terms.devices is not None and terms.load_per_s is not None:
        raise UsageError(
            "--load and --devices exclude each other.",
            "Give the load, or the number of devices that do it now with the baseline.",
        )
    given: Mapping[str, float | None] = {
        "--engineering-hours": terms.engineering_hours,
        "--rate": terms.hourly_rate,
    }
    for option, other in (("--engineering-hours", "--rate"), ("--rate", "--engineering-hours")):
        spent = given[option]
        if spent is None:
            continue
        _positive(spent, option, zero=True)
        if given[other] is None:
            raise UsageError(f"{option} needs {other}.", "Give both: --engineering-hours 40 --rate 90.")
    return msgspec.structs.replace(terms, currency=currency)
