"""What the user says of money and load, read and checked; each mistake is a UsageError with a next step."""

import math
import re
from collections.abc import Mapping, Sequence

import msgspec

from edgeopt.commands.cost.records import Terms
from edgeopt.errors import UsageError
from edgeopt.nearest import near

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
