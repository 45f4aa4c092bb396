"""Texts in the model that tell how and where it was exported."""

from collections.abc import Iterable

from edgeopt.commands.analyze.opportunities.view import View
from edgeopt.graph.analysis import Opportunity

_MUCH_BYTES = 16 << 10


def find(view: View) -> Iterable[Opportunity]:
    found = view.rewritten
    if found is None or (not found.leaks and found.metadata_bytes < _MUCH_BYTES):
        return
    if found.leaks:
        places = "; ".join(f"{leak.where}: {leak.text[:80]}" for leak in found.leaks[:3])
        reason = (
            f"{found.leaks_count} text{'s' if found.leaks_count != 1 else ''} name"
            f"{'s' if found.leaks_count == 1 else ''} folders of the machine that exported the model ({places})."
        )
    else:
        reason = f"{found.metadata_bytes:,} bytes of the file are notes of the exporter that no runtime reads."
    yield Opportunity(
        "metadata",
        "Strip the exporter's notes",
        reason,
        (),
        None,
        "no gain in speed; protects private information",
        view.simplify,
    )
