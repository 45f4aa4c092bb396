"""Proves a rebuilt model again on this device: its speed and accuracy against the source."""

from edgeopt import units
from edgeopt.bundle.deployment import Evidence, four_digits
from edgeopt.commands.replay.work import Work
from edgeopt.data.judging.goals import Goal
from edgeopt.data.levels import levels_in
from edgeopt.data.samples import save_samples
from edgeopt.errors import VerificationError
from edgeopt.graph.accuracy import accuracy_text, decibels
from edgeopt.quant.measured.proving.speed import RESULT, SOURCE, Runner, compared

FASTER, NOT_FASTER = "faster", "not proved faster"
_LIMIT_S = 20.0
_MOST_SAMPLES = 16


def prove(work: Work) -> Evidence:
    """Raises VerificationError where the outputs are below the floor, or nothing can be measured."""
    samples = work.samples()
    feeds, reference = work.last_samples(samples, _MOST_SAMPLES)
    goal = Goal(floor=work.needed_db, budget="")
    judged = goal.judge(work.answers(feeds), reference, levels=[levels_in(sample) for sample in feeds])
    if judged.problem or judged.value < work.needed_db:
        said = judged.problem or (judged.weakest.sentence if judged.weakest is not None else "")
        raise VerificationError(
            (
                f"The rebuilt model reaches {decibels(judged.value)} on {len(feeds)} samples here; it needs "
                f"{work.needed_db:g} dB. {said}"
            ).strip(),
            "Run `edgeopt optimize` on this device.",
        )
    place = work.rest / "samples"
    save_samples(samples, place)
    judge = work.runs.judge
    runners = [
        Runner(RESULT, work.model, work.run.backend, work.run.options),
        Runner(SOURCE, work.request.model, judge, {}),
    ]
    found = compared(runners, place, work.rest, _LIMIT_S, work.emit)
    speed = found.speeds.get(SOURCE)
    if speed is None:
        said = "; ".join(f"{name}: {reason}" for name, reason in found.failures.items())
        raise VerificationError(
            f"The rebuilt model could not be measured: {said}.", "Run the command again, or leave --measure out."
        )
    if found.warning:
        work.warn(found.warning)
    ratio = speed.speedup
    return Evidence(
        verdict=FASTER if speed.verdict == "faster" else NOT_FASTER,
        baseline=f"source · {judge}",
        baseline_ms=four_digits(speed.other_ms),
        latency_ms=four_digits(speed.first_ms),
        speedup=four_digits(ratio.median),
        speedup_low=four_digits(ratio.low),
        speedup_high=four_digits(ratio.high),
        rounds=ratio.rounds,
        accuracy_db=round(judged.value, 1),
        floor_db=work.floor_db,
        samples=len(feeds),
    )


def summary_of(evidence: Evidence) -> str:
    """What was proved, in a sentence."""
    times = f"{evidence.latency_ms:.3g} ms against {evidence.baseline_ms:.3g} ms"
    accuracy = accuracy_text(evidence.accuracy_db)
    if evidence.verdict == FASTER:
        return f"{evidence.speedup:.2f}x faster than {evidence.baseline} ({times}), {accuracy}."
    interval = units.speedup_text(evidence.speedup, evidence.speedup_low, evidence.speedup_high)
    return f"Not proved faster than {evidence.baseline}: {interval} ({times}), {accuracy}."
