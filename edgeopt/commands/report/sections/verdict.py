"""First of all: what came out, and the few numbers that matter."""

from edgeopt.commands.documents.blocks import Block, Figure, Figures, Mood, Section, Words
from edgeopt.commands.report import words
from edgeopt.commands.report.facts import Accuracy, Facts, Speed


def section(facts: Facts) -> Section:
    blocks: list[Block] = [Words(facts.summary), Figures(_figures(facts))]
    blocks += [Words(each, "warning") for each in (*_warnings(facts), *facts.warnings)]
    return Section("verdict", _title(facts), tuple(blocks))


def _title(facts: Facts) -> str:
    said = facts.verdict[:1].upper() + facts.verdict[1:]
    if facts.deployment.predicted is not None:
        said += ", not measured"
    if facts.verdict == "faster" and facts.speed is not None:
        said += f": {words.ratio(facts.speed.ratio.median)}"
    return said if good_enough(facts.accuracy) else f"{said}, but below the accuracy asked for"


def good_enough(accuracy: Accuracy | None) -> bool:
    if accuracy is None or accuracy.snr_db is None or accuracy.floor_db is None:
        return True
    return accuracy.snr_db >= accuracy.floor_db


def _figures(facts: Facts) -> tuple[Figure, ...]:
    figures = []
    if facts.speed is not None:
        figures += _of_the_source(facts.speed) if _is_unchanged(facts) else _of_speed(facts.speed)
    predicted = facts.deployment.predicted
    if predicted is not None and predicted.latency_ms is not None:
        beside = f"predicted; baseline {words.milliseconds(predicted.baseline_ms)}"
        figures.append(Figure("Time of one run", words.milliseconds(predicted.latency_ms), beside))
    figures.append(_of_accuracy(facts.accuracy))
    before, after = facts.deployment.source.size_bytes, facts.model_bytes
    compared = f"source {words.size(before)} ({words.change(before, after)})"
    figures.append(Figure("Size of the model", words.size(after), compared))
    figures += _of_memory(facts.speed, unchanged=_is_unchanged(facts))
    return tuple(figures)


def _is_unchanged(facts: Facts) -> bool:
    """The bundle has the source model: what its two sides differ by is noise."""
    return facts.verdict in {"keep what you have", "undecided"} and len(facts.stages) == 1


def _of_the_source(speed: Speed) -> list[Figure]:
    return [Figure("Time of one run", words.milliseconds(speed.baseline.latency_ms), "unchanged")]


def _of_speed(speed: Speed) -> list[Figure]:
    found = speed.ratio
    rounds = words.several(found.rounds, "round")
    sure = f"{words.interval(found)} with {words.confidence(found)} confidence, {rounds}"
    mood: Mood = "good" if speed.verdict == "faster" else "bad" if speed.verdict == "slower" else ""
    return [
        Figure("Speed-up", words.ratio(found.median), sure, mood),
        Figure(
            "Time of one run",
            words.milliseconds(speed.result.latency_ms),
            f"baseline {words.milliseconds(speed.baseline.latency_ms)}",
        ),
    ]


def _of_accuracy(accuracy: Accuracy | None) -> Figure:
    if accuracy is None or accuracy.snr_db is None:
        return Figure("Accuracy", "not known", "the bundle has no record")
    floor = accuracy.goal or (f"{accuracy.floor_db:g} dB" if accuracy.floor_db is not None else "not told")
    samples = words.several(accuracy.samples or 0, "sample")
    on = f"on {samples} set aside" if accuracy.set_aside else f"on {samples}"
    mood: Mood = "" if good_enough(accuracy) else "bad"
    return Figure("Accuracy", words.decibels(accuracy.snr_db), f"floor {floor}; {on}", mood)


def _of_memory(speed: Speed | None, *, unchanged: bool) -> list[Figure]:
    result = speed.result.memory.peak_bytes if speed and speed.result.memory else None
    baseline = speed.baseline.memory.peak_bytes if speed and speed.baseline.memory else None
    if unchanged and baseline is not None:
        return [Figure("Peak memory", words.mebibytes(baseline), "unchanged")]
    if result is None:
        return []
    compared = f"baseline {words.mebibytes(baseline)} ({words.change(baseline, result)})"
    return [Figure("Peak memory", words.mebibytes(result), compared)]


def _warnings(facts: Facts) -> list[str]:
    said = []
    deployment = facts.deployment
    if deployment.predicted is not None:
        said.append(
            f"Planned for {deployment.predicted.device}, which was not there: no time in it is measured. "
            + " ".join(f"{each.rstrip('.')}." for each in deployment.predicted.finish)
        )
    if deployment.replayed is not None and not deployment.replayed.measured:
        said.append(
            "This bundle was rebuilt from a deployment profile without measuring again: the evidence is that of "
            "the first one, and of its device."
        )
    if facts.changed_here and deployment.predicted is None:
        said.append(
            "This report was made on another device than the bundle was proved on: "
            f"{', '.join(facts.changed_here)} differ."
        )
    return said
