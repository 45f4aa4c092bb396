"""Share of the data that a mask marks as padding, and whether skipping it is worthwhile."""

from collections.abc import Sequence

from edgeopt import units
from edgeopt.backends.base import TensorInfo
from edgeopt.data.samples import Samples
from edgeopt.graph.ledger import Ledger
from edgeopt.graph.masks import is_mask, kept_share
from edgeopt.graph.passes import standard_passes
from edgeopt.graph.passes.cleaning.skip_padding import PASS
from edgeopt.graph.pipeline import select
from edgeopt.profiles import TargetProfile

# With a larger share of kept places, the saving would hardly make up for a length that is unknown in advance.
_WORTH_IT = 0.75


def graph_passes(profile: TargetProfile, kept: float) -> tuple[str, ...]:
    """Returns the exact rewrites of the profile, and the one that skips padding if this share makes it pay."""
    listed = profile.graph.passes
    only = () if isinstance(listed, str) else listed
    also = (PASS.name,) if kept <= _WORTH_IT else ()
    return tuple(one.name for one in select(standard_passes(), only, also=also))


def kept_by(inputs: Sequence[TensorInfo], samples: Samples) -> float:
    """Returns the share of all places that must be computed; 1 if no mask marks the padding."""
    masks = [info.name for info in inputs if is_mask(info.name, len(info.shape))]
    return kept_share(samples, masks[0]) if len(masks) == 1 else 1.0


def skips_padding(ledger: Ledger) -> bool:
    """Whether the pass that skips padding was applied, and proved to change nothing."""
    return any(entry.pass_name == PASS.name and entry.applied and not entry.rolled_back for entry in ledger)


def padding_note(share: float) -> str:
    """Returns the note for users whose latencies were measured with this share of data kept."""
    return (
        f"{units.percent(1 - share, 0)} of the data is padding, which the cleaned model skips. Its speed depends "
        "on the length of your inputs; inputs without padding take slightly longer than in the source."
    )
