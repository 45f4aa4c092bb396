"""Whether a bundle is sound, still right, and still proved for this device."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from edgeopt import units
from edgeopt.bundle.deployment import Deployment, machine_of
from edgeopt.bundle.golden import answer_golden, checked_words, problem_with
from edgeopt.bundle.manifest import check_manifest, file_digest
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.runtime.session import load
from edgeopt.bundle.sign import PublicKey, claimed_key, verify_signature
from edgeopt.errors import VerificationError
from edgeopt.events import Emit, Progress
from edgeopt.graph.accuracy import agreement
from edgeopt.graph.unjudged import NO_VALUES, unjudged_outputs
from edgeopt.hw.device import Device, fingerprint
from edgeopt.hw.probe import probe
from edgeopt.platform.command_line import quote_word

SOURCE = "source model"
_RUNTIMES = "runtimes"
_UNSAID = "not said"


class Changed(msgspec.Struct, frozen=True):
    """One part, in words; the digests of the device's fingerprint decide, the words only tell."""

    part: str
    then: str
    now: str


def changes_since(deployment: Deployment, device: Device) -> tuple[Changed, ...]:
    """The parts of the device's fingerprint that are not what they were, in its order."""
    here, words = fingerprint(device), machine_of(device)
    return tuple(
        _runtimes(deployment, device)
        if part == _RUNTIMES
        else Changed(
            part, *_compared_texts(deployment.machine.get(part, ""), words.get(part, ""), bool(deployment.machine))
        )
        for part, digest in deployment.device.items()
        if here.get(part) != digest
    )


def how_to_refresh(changes: tuple[Changed, ...], bundle: str, model: str = "") -> str:
    """A sentence for people; empty where nothing changed. `model`: the source, where it is known."""
    if not changes:
        return ""
    bundle, model = quote_word(bundle), quote_word(model) if model else "MODEL"
    if any(each.part == SOURCE for each in changes):
        return f"Search again with the changed model: edgeopt optimize {model} -o {bundle}"
    return (
        f"Prove it again on this device: edgeopt replay {bundle} {model} -o NEW --measure, or search "
        f"again: edgeopt optimize {model} -o NEW"
    )


def _compared_texts(then: str, now: str, recorded: bool) -> tuple[str, str]:
    """`recorded`: whether the bundle has words at all; then none for a part means that there was nothing of it."""
    then, now = then or ("none" if recorded else _UNSAID), now or "none"
    return (then, now) if then != now else (then, f"{now}, but not in every detail")


def _runtimes(deployment: Deployment, device: Device) -> Changed:
    """Returns the runtimes that were added, removed or changed their version."""
    then, now = deployment.runtimes, {each.name: each.version for each in device.runtimes}
    names = [name for name in {**then, **now} if then.get(name) != now.get(name)]
    if not names:
        return Changed(_RUNTIMES, "the same versions", "with other providers or devices")
    return Changed(
        _RUNTIMES,
        ", ".join(f"{name} {then.get(name, 'absent')}" for name in names),
        ", ".join(f"{name} {now.get(name, 'absent')}" for name in names),
    )


class BundleCheck(msgspec.Struct, frozen=True):
    bundle: str
    files: int
    accuracy_db: float
    floor_db: float
    stale: tuple[str, ...]
    """The parts of the device's fingerprint that are not what they were."""
    signed_by: str | None = None
    """The id of the key in its signature, where there is one."""
    trusted: bool = False
    """Whether that signature was checked and is of a key that was given."""
    status: Literal["valid", "stale"] = "valid"
    """Validity of the evidence on this device; a broken bundle raises an error instead."""
    changes: tuple[Changed, ...] = ()
    """The stale parts in words, and the source model if it was given and differs."""
    refresh: str = ""
    """Advice on how to refresh a stale bundle."""
    held_against: str = "the source model"
    """Model that computed the golden samples' answers."""
    predicted: bool = False
    """Whether the bundle was planned for an absent device, so that no proof could be valid or stale."""
    evidence: str = ""
    """Origin of the evidence if it was not measured with these very files; otherwise empty."""
    speed: Literal["faster", "not proved faster", "not measured", "predicted"] = "not measured"
    """Verdict of the evidence for these very files, on the device that it was measured on."""
    speed_words: str = ""
    """The verdict on the speed as a sentence, with the interval."""
    processing: str = ""
    """Sentence about the check of pre- and postprocessing; empty if the bundle has none."""
    encoder: str = ""
    """Sentence about the check of the encoder; empty if the bundle has none."""
    shows_accuracy: bool = True
    """Whether any golden output has values to compare with; if none has, `accuracy_db` proves nothing."""
    warnings: tuple[str, ...] = ()
    """Golden outputs that show the accuracy in part or not at all, with the reason."""

    @property
    def agreement_words(self) -> str:
        """Agreement of the golden samples, in words: `43.1 dB against the source model`."""
        if not self.shows_accuracy:
            return f"{NO_VALUES}, as those of {self.held_against}: this proves nothing"
        return agreement(self.accuracy_db, self.held_against, against=True)


def check(path: Path, emit: Emit, keys: Sequence[PublicKey] = (), model: Path | None = None) -> BundleCheck:
    """Raises BundleError for a damaged bundle, VerificationError for one that answers otherwise than it must.

    With keys, a bundle that none of them signed is refused too. `model`: the source, if it is still the same.
    """
    emit(Progress("checking digests", path.name))
    bundle = read_bundle(path)
    files = len(check_manifest(bundle.folder).files)
    signed_by = (
        verify_signature(bundle.folder, keys, quote_word(str(path))) if keys else claimed_key(bundle.folder)
    )
    emit(Progress("running golden samples", bundle.deployment.run.backend))
    with load(path, fallback=False) as session:
        found = answer_golden(bundle, session)
        unlike = problem_with(bundle, session.processor, session.process) if session.processor is not None else ""
    changes = changes_since(bundle.deployment, probe())
    wrong = found.sentence(f"The bundle '{path.name}'")
    if wrong:
        parts = ", ".join(each.part for each in changes)
        since = f" Since it was proved, this changed: {parts}." if parts else ""
        raise VerificationError(wrong, f"Run `edgeopt optimize` again on this device.{since}")
    if unlike:
        raise VerificationError(unlike, "Run `edgeopt optimize` again with the same --pre and --post.")
    encoder = check(bundle.encoder, emit) if bundle.encoder is not None else None
    if encoder is not None:
        changes = (*changes, *(each for each in encoder.changes if each not in changes))
    stale = tuple(dict.fromkeys(each.part for each in changes))
    if model is not None:
        changes = (*changes, *_source_changes(bundle.deployment, model))
    return BundleCheck(
        bundle=str(path),
        files=files,
        accuracy_db=found.accuracy_db,
        floor_db=found.floor_db,
        stale=stale,
        signed_by=signed_by,
        trusted=bool(keys),
        status="stale" if changes else "valid",
        changes=changes,
        refresh=how_to_refresh(changes, str(path), str(model or "")),
        held_against=_held_against(bundle.deployment),
        predicted=bundle.deployment.predicted is not None,
        evidence=_evidence(bundle.deployment),
        speed=_speed(bundle.deployment),
        speed_words=_speed_words(bundle.deployment),
        processing=checked_words(bundle),
        encoder=_encoder_words(encoder),
        shows_accuracy=found.shows_accuracy,
        warnings=tuple(unjudged_outputs(bundle.golden("reference"))) + (encoder.warnings if encoder else ()),
    )


def _encoder_words(found: BundleCheck | None) -> str:
    if found is None:
        return ""
    text = f"Golden samples of the encoder: {found.agreement_words} (at least {found.floor_db:.1f} dB is needed)."
    if found.signed_by is None:
        return text
    return f"{text} The encoder has a signature of its own, which was not checked."


def _source_changes(deployment: Deployment, model: Path) -> tuple[Changed, ...]:
    from edgeopt.graph.model import load as load_model

    source = deployment.source
    # Most models are one file, whose digest says it without reading the graph.
    if model.is_file() and file_digest(model) == source.sha256:
        return ()
    found = load_model(model).digest
    if found == source.sha256:
        return ()
    return (Changed(SOURCE, f"{source.name}, {source.sha256[:12]}...", f"{model.name}, {found[:12]}..."),)


def _held_against(deployment: Deployment) -> str:
    own = deployment.replayed is not None and deployment.replayed.own_answers
    return "its outputs at replay, on generated samples" if own else "the source model"


def _evidence(deployment: Deployment) -> str:
    replayed = deployment.replayed
    if deployment.predicted is not None:
        predicted = deployment.predicted
        return f"Predicted for {predicted.device}, not measured: its speed is not proved. {predicted.finish[-1]}"
    if replayed is None or replayed.measured:
        return ""
    return f"Replayed on {replayed.on[:10]} and not measured again: the evidence is that of the first bundle."


def _speed(deployment: Deployment) -> Literal["faster", "not proved faster", "not measured", "predicted"]:
    found, replayed = deployment.evidence, deployment.replayed
    if deployment.predicted is not None:
        return "predicted"
    if found is None or (replayed is not None and not replayed.measured):
        return "not measured"
    kept = found.verdict in {"keep what you have", "undecided", "not proved faster"}
    return "faster" if found.speedup_low > 1 and not kept else "not proved faster"


def _speed_words(deployment: Deployment) -> str:
    found, verdict = deployment.evidence, _speed(deployment)
    if verdict == "predicted":
        return "Predicted, not measured."
    if found is None or verdict == "not measured":
        return "Not measured for these files."
    interval = units.speedup_text(found.speedup, found.speedup_low, found.speedup_high)
    if verdict == "faster":
        return f"Proved faster than {found.baseline}: {interval}."
    if not found.rounds:
        return f"The bundle runs the source model unchanged ({found.baseline})."
    return f"Not proved faster than {found.baseline}: {interval}."
