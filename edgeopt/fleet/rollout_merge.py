"""Two clients may write the state of one rollout at once: both come to the same one."""

import msgspec

from edgeopt.fleet.rollout_documents import KIND_STATES, PHASES, STATES, DeviceProgress, KindProgress, Rollout

replace = msgspec.structs.replace


def merged(mine: Rollout, theirs: Rollout) -> Rollout:
    """The newer of both, device by device; a rollout that was begun later under the same name replaces it."""
    if mine.sequence != theirs.sequence:
        return max(mine, theirs, key=lambda each: each.sequence)
    leading = max(theirs, mine, key=lambda each: (each.control, PHASES.index(each.phase)))
    sources = [*theirs.sources, *(each for each in mine.sources if each not in theirs.sources)]
    devices = dict(theirs.devices)
    for name, own in mine.devices.items():
        if name not in devices or _rank(own) > _rank(devices[name]):
            before = sources.index(mine.sources[own.before]) if own.before >= 0 else -1
            devices[name] = replace(own, before=before)
    known = {(each.what, each.reason) for each in theirs.decisions}
    more = [each for each in mine.decisions if (each.what, each.reason) not in known]
    return replace(
        theirs,
        phase=leading.phase,
        reason=leading.reason,
        control=leading.control,
        wave=max(mine.wave, theirs.wave),
        wave_since_s=max(mine.wave_since_s, theirs.wave_since_s),
        return_sequence=max(mine.return_sequence, theirs.return_sequence),
        sources=tuple(sources),
        devices=devices,
        kinds=_kinds(mine.kinds, theirs.kinds),
        decisions=tuple(sorted((*theirs.decisions, *more), key=lambda each: each.time_s)),
        revision=max(mine.revision, theirs.revision),
    )


def _rank(device: DeviceProgress) -> int:
    return STATES.index(device.state)


def _kinds(mine: dict[str, KindProgress], theirs: dict[str, KindProgress]) -> dict[str, KindProgress]:
    """The newer of both, kind by kind; clients order the same search, which a device makes once."""
    found = dict(theirs)
    for kind, own in mine.items():
        if kind not in found or _kind_rank(own) > _kind_rank(found[kind]):
            found[kind] = own
    return found


def _kind_rank(kind: KindProgress) -> tuple[int, int]:
    return kind.attempt, KIND_STATES.index(kind.state)
