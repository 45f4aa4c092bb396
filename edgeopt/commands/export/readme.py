"""The page that lies in each export: what it is, how it is used, what it does not carry."""

from edgeopt.commands.export.base import Format, Made, Order
from edgeopt.commands.export.settings import options_text
from edgeopt.graph.accuracy import agreement
from edgeopt.version import __version__


def readme(order: Order, form: Format, made: Made) -> str:
    profile = order.bundle.deployment
    source = f"{profile.source.name} (sha256 {profile.source.sha256[:16]}…)"
    parts = [
        f"# {order.name}\n\n{form.title}. Exported by edgeopt {__version__} from a bundle of {source}.",
        "## What was proved\n\n" + _proved(order),
        "## Using it\n\n```\n" + "\n".join(made.use) + "\n```",
        "## What to know\n\n" + "\n".join(f"- {note}" for note in [*made.notes, _checked(made)]),
        "## Inputs and outputs\n\n" + _ports(order),
    ]
    return "\n\n".join(parts) + "\n"


def _proved(order: Order) -> str:
    profile = order.bundle.deployment
    how = f"With {order.backend} and {options_text(order)}."
    if profile.predicted is not None:
        return f"Nothing yet: it was planned for {profile.predicted.device}, and no time was measured. {how}"
    evidence = profile.evidence
    if evidence is None:
        return f"{profile.summary} {how}"
    if not evidence.rounds:
        return f"{profile.summary} {how} The bundle runs the source model unchanged."
    return (
        f"{profile.summary} {how} Measured {evidence.speedup:g} times as fast as {evidence.baseline} "
        f"(between {evidence.speedup_low:g} and {evidence.speedup_high:g}), "
        f"{agreement(evidence.accuracy_db)} on {evidence.samples} samples, at least "
        f"{evidence.floor_db:g} dB asked for. That was measured of the bundle on its own "
        "device; the speed of this form was not measured."
    )


def _checked(made: Made) -> str:
    if made.answer is None:
        return made.not_checked
    return (
        f"Accuracy on the golden samples when it was exported: {agreement(made.answer.accuracy_db, against=True)} "
        f"(at least {made.answer.floor_db:.1f} dB is needed). {made.not_checked}"
    ).strip()


def _ports(order: Order) -> str:
    profile = order.bundle.deployment
    rows = ["| | name | type | shape |", "|---|---|---|---|"]
    for kind, listed in (("input", profile.inputs), ("output", profile.outputs)):
        rows += [f"| {kind} | `{p.name}` | {p.dtype} | {', '.join(map(str, p.shape))} |" for p in listed]
    return "\n".join(rows)
