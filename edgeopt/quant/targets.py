"""What the devices of other targets would do with a quantized file: pairs that overflow, layers that fall back."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec

from edgeopt.data.samples import Samples
from edgeopt.errors import UsageError
from edgeopt.graph.accuracy import decibels
from edgeopt.graph.passes.base import plural
from edgeopt.profiles import TargetProfile
from edgeopt.quant.inventory import Inventory, inventory_of
from edgeopt.quant.provider_rules import findings
from edgeopt.quant.saturation import Saturation, percent, simulate

FINE, SATURATES = "fine", "saturates"
# Beyond, what is cut off is lost among the errors that eight bits have anyway.
_UNNOTICED_DB = 45.0
# Each takes seconds for a large model, and one shows what is to be seen.
_MOST_SAMPLES = 2
_MOST_NAMED = 3


class TargetRow(msgspec.Struct, frozen=True):
    """One thing to know of the file on a target's device."""

    target: str
    verdict: str
    """`fine`, `saturates`, `falls back`, `no gain`, `slower`, `fails`."""
    reason: str
    remedy: str = ""
    snr_db: float | None = None
    """The file with that device's arithmetic against the same in exact arithmetic, where it was simulated."""


def check_targets(model_path: Path, targets: Sequence[str], samples: Samples) -> tuple[TargetRow, ...]:
    """Rows for each of these targets, in their order; UsageError for a name that there is not."""
    from edgeopt.graph.model import load
    from edgeopt.profiles.targets import find

    profiles = [find(name).profile for name in targets]
    if not profiles:
        raise UsageError("No target to check.", "Name targets: --check-targets cpu-avx2,arm-dotprod")
    model = load(model_path).ir
    file = inventory_of(model)

    @cache
    def saturation() -> Saturation:
        return simulate(model, samples[range(min(len(samples), _MOST_SAMPLES))])

    rows: list[TargetRow] = []
    for name, profile in zip(targets, profiles, strict=True):
        found = [
            TargetRow(name, rule.verdict, rule.reason, rule.remedy)
            for rule in findings(profile.backends.order[0], profile.match.architectures, file)
        ]
        told = _of_pairs(name, saturation()) if _may_saturate(profile, file) else None
        if told is not None and (told.verdict != FINE or not found):
            found.insert(0, told)
        rows += found or [TargetRow(name, FINE, _why_fine(profile, file))]
    return tuple(rows)


def _may_saturate(profile: TargetProfile, file: Inventory) -> bool:
    """Profiles ask for seven bits where pairs of eight-bit products are added in sixteen."""
    on_x86 = profile.backends.order[0].endswith("-cpu") and "aarch64" not in profile.match.architectures
    return on_x86 and profile.quantization.reduce_range and file.quantized_products > 0


def _of_pairs(target: str, found: Saturation) -> TargetRow | None:
    """What the simulation says; None where it had nothing to look at."""
    if not found.layers:
        return None
    left_out = _left_out(found)
    if not found.cut:
        why = f"No pair of products in {_these(found)} overflows 16 bits on these samples.{left_out}"
        return TargetRow(target, FINE, why, snr_db=found.snr_db)
    worst = ", ".join(f"{percent(each.share)} in '{each.layer}'" for each in found.cut[:_MOST_NAMED])
    why = (
        f"Pairs of products overflow 16 bits in {len(found.cut)} of {_these(found)}: {worst}. "
        f"The outputs keep {decibels(found.snr_db)} of what exact sums give.{left_out}"
    )
    if found.snr_db >= _UNNOTICED_DB:
        return TargetRow(target, FINE, why, snr_db=found.snr_db)
    remedy = f"Quantize with weights of seven bits, as --profile {target} does, or keep these layers float."
    return TargetRow(target, SATURATES, why, remedy, found.snr_db)


def _these(found: Saturation) -> str:
    return plural(len(found.layers), "layer")


def _left_out(found: Saturation) -> str:
    if not found.left_out:
        return ""
    return f" {plural(len(found.left_out), 'product')} without constant int8 weights could not be simulated."


def _why_fine(profile: TargetProfile, file: Inventory) -> str:
    backend = profile.backends.order[0]
    if not file.is_quantized:
        return "Nothing in it is quantized."
    if not file.quantized_products:
        return f"Only weights are stored in few bits, which {backend} takes."
    return f"{plural(file.quantized_products, 'product')} in few bits, as {backend} takes them, added in 32 bits."
