"""`edgeopt.quantize`: from a model and data to a quantized file that was proved, or "keep float" and why."""

import time
from pathlib import Path

import msgspec

from edgeopt.bundle.read import is_bundle, read_bundle
from edgeopt.events import Emit, ignore
from edgeopt.quant.measured.given import Runs
from edgeopt.quant.measured.planning.planned import planned, single
from edgeopt.quant.measured.records import PLAN, Quantized, QuantizeRequest
from edgeopt.quant.measured.work import Work, check_request, prepare
from edgeopt.quant.records import TargetSaid
from edgeopt.workspace import WORK, workspace


def quantize(request: QuantizeRequest, emit: Emit = ignore) -> Quantized:
    """Raises an EdgeoptError for what is wrong with what was given; that nothing is gained is an answer.

    Whatever happens, nothing is left behind but the file that was asked for.
    """
    begin = time.monotonic()
    check_request(request)
    with workspace(WORK) as folder, Runs() as runs:
        work = prepare(request, folder, runs, emit)
        found = planned(work) if request.method == PLAN else single(work)
        return msgspec.structs.replace(
            found,
            targets=_targets(work, found),
            warnings=tuple(work.warnings),
            phases_s=dict(work.study.phases_s),
            seconds=time.monotonic() - begin,
        )


def _targets(work: Work, found: Quantized) -> tuple[TargetSaid, ...]:
    """What other targets' devices would do with the file."""
    if not work.request.check_targets or not found.files:
        return ()
    from edgeopt.quant.provider_rules import check_targets

    written = Path(found.files[0].path)
    bundle = read_bundle(written) if is_bundle(written) else None
    with work.study.phase("checking targets", ", ".join(work.request.check_targets)):
        return check_targets(bundle.model if bundle is not None else written, work.request.check_targets)
