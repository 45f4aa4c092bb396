"""What the devices of other targets would do with a quantized file: pairs that overflow, layers that fall back."""

from collections.abc import Sequence
from pathlib import Path

from edgeopt.errors import UsageError
from edgeopt.graph.passes.base import plural
from edgeopt.profiles import TargetProfile
from edgeopt.quant.inventory import Inventory, inventory_of
from edgeopt.quant.provider_rules import findings
from edgeopt.quant.records import TargetSaid

FINE, SATURATES = "fine", "saturates"


def check_targets(model_path: Path, targets: Sequence[str]) -> tuple[TargetSaid, ...]:
    """Rows for each of these targets, in their order; UsageError for a name that there is not."""
    from edgeopt.graph.model import load
    from edgeopt.profiles.targets import find

    profiles = [find(name).profile for name in targets]
    if not profiles:
        raise UsageError("No target to check.", "Name targets: --check-targets cpu-avx2,arm-dotprod")
    file = inventory_of(load(model_path).ir)
    rows: list[TargetSaid] = []
    for name, profile in zip(targets, profiles, strict=True):
        found = [
            TargetSaid(name, rule.verdict, rule.reason, rule.remedy)
            for rule in findings(profile.backends.order[0], profile.match.architectures, file)
        ]
        if _adds_in_sixteen_bits(profile) and file.wide_products:
            found.insert(0, _saturating(name, file))
        rows += found or [TargetSaid(name, FINE, _why_fine(profile, file))]
    return tuple(rows)


def _adds_in_sixteen_bits(profile: TargetProfile) -> bool:
    """Profiles ask for seven bits where pairs of eight-bit products are added in sixteen."""
    on_x86 = profile.backends.order[0].endswith("-cpu") and "aarch64" not in profile.match.architectures
    return on_x86 and profile.quantization.reduce_range


def _saturating(target: str, file: Inventory) -> TargetSaid:
    reason = (
        f"{len(file.wide_products)} of {plural(file.quantized_products, 'product')} may overflow: without VNNI, "
        f"pairs of products with weights of eight bits are added in 16 bits ('{file.wide_products[0]}')."
    )
    remedy = f"Quantize with weights of seven bits, as --profile {target} does, or measure the accuracy there."
    return TargetSaid(target, SATURATES, reason, remedy)


def _why_fine(profile: TargetProfile, file: Inventory) -> str:
    backend = profile.backends.order[0]
    if not file.is_quantized:
        return "Nothing in it is quantized."
    if not file.quantized_products:
        return f"Only weights are stored in few bits, which {backend} takes."
    how = (
        "with weights of seven bits, which cannot overflow"
        if _adds_in_sixteen_bits(profile)
        else "added in 32 bits"
    )
    return f"{plural(file.quantized_products, 'product')} in few bits, as {backend} takes them, {how}."
