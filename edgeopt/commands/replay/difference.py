"""What differs between two deployments, in words."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from edgeopt.bundle.deployment import Deployment, Step, Tensor, said_of
from edgeopt.commands.replay.profile import Profile, read_profile
from edgeopt.quant.records import FLOAT

_NONE = "-"
_MOST_NAMED = 3


class Row(msgspec.Struct, frozen=True):
    part: str
    """`run`, `steps`, `layers`, ..."""
    what: str
    first: str
    second: str


class Difference(msgspec.Struct, frozen=True):
    first: str
    second: str
    same_files: bool | None
    """Whether both run the same files; None where one holds no digests."""
    rows: tuple[Row, ...]
    summary: str


def difference(first: Path, second: Path) -> Difference:
    """Of two bundles or profiles; when they were made is no difference."""
    one, two = read_profile(first), read_profile(second)
    rows = tuple(_rows(one, two))
    files = one.deployment.files, two.deployment.files
    same = files[0] == files[1] if all(files) else None
    return Difference(str(first), str(second), same, rows, _summary(rows, same))


def _rows(first: Profile, second: Profile) -> Iterator[Row]:
    one, two = first.deployment, second.deployment
    yield from _table("source", {"model": _source(one)}, {"model": _source(two)})
    yield from _table("target", {"profile": one.target}, {"profile": two.target})
    yield from _table("run", {"backend": one.run.backend}, {"backend": two.run.backend})
    yield from _table("run", _options(one), _options(two))
    yield from _table("inputs", _tensors(one.inputs), _tensors(two.inputs))
    yield from _table("outputs", _tensors(one.outputs), _tensors(two.outputs))
    yield from _table("processing", _processing(one), _processing(two))
    yield from _steps(one.steps, two.steps)
    yield from _layers(one.steps, two.steps)
    yield from _record(first, second)
    yield from _table("budget", _fields(one.budget), _fields(two.budget))
    yield from _table("device", one.machine, two.machine)
    yield from _table("runtimes", one.runtimes, two.runtimes)
    yield from _table("evidence", _fields(one.evidence), _fields(two.evidence))
    yield from _table("predicted", _fields(one.predicted), _fields(two.predicted))


def _table(part: str, first: Mapping[str, object], second: Mapping[str, object]) -> Iterator[Row]:
    for name in dict.fromkeys((*first, *second)):
        one, two = first.get(name), second.get(name)
        if one != two:
            yield Row(part, name, _NONE if one is None else str(one), _NONE if two is None else str(two))


def _source(deployment: Deployment) -> str:
    return f"{deployment.source.name} {deployment.source.sha256[:12]}"


def _options(deployment: Deployment) -> dict[str, str]:
    return {name: str(value) for name, value in deployment.run.options.items()}


def _tensors(tensors: list[Tensor]) -> dict[str, str]:
    return {each.name: f"{each.dtype} [{', '.join(map(str, each.shape))}]" for each in tensors}


def _processing(deployment: Deployment) -> dict[str, str]:
    told = deployment.processing
    parts = {} if told is None else {"before": told.pre, "after": told.post}
    return {name: said_of(part) for name, part in parts.items() if part is not None}


def _fields(record: msgspec.Struct | None) -> dict[str, object]:
    return (
        {} if record is None else {k: v for k, v in msgspec.structs.asdict(record).items() if v not in ("", None)}
    )


def _steps(first: list[Step], second: list[Step]) -> Iterator[Row]:
    names = [step.recipe for step in first], [step.recipe for step in second]
    if names[0] != names[1]:
        yield Row("steps", "order", " > ".join(names[0]) or "none", " > ".join(names[1]) or "none")
    theirs = {step.recipe: step for step in second}
    for step in first:
        other = theirs.get(step.recipe)
        for name in dict.fromkeys((*step.parameters, *(other.parameters if other else ()))) if other else ():
            one, two = step.parameters.get(name), other.parameters.get(name) if other else None
            if one != two:
                yield _parameter(f"{step.recipe}: {name}", one, two)


def _parameter(what: str, one: object, two: object) -> Row:
    """Of lists, what only one of them has."""
    if isinstance(one, list) and isinstance(two, list):
        only = [str(v) for v in one if v not in two], [str(v) for v in two if v not in one]
        if any(only):
            return Row("steps", what, *(f"only: {_named(names)}" if names else "no more" for names in only))
        return Row("steps", what, "in one order", "in another")
    return Row("steps", what, *(_NONE if value is None else str(value) for value in (one, two)))


def _layers(first: list[Step], second: list[Step]) -> Iterator[Row]:
    """Which layers have another form, those with the same change together."""
    one, two = _forms(first), _forms(second)
    changed: dict[tuple[str, str], list[str]] = {}
    for layer in dict.fromkeys((*one, *two)):
        forms = one.get(layer, FLOAT), two.get(layer, FLOAT)
        if forms[0] != forms[1]:
            changed.setdefault(forms, []).append(layer)
    for forms, layers in changed.items():
        yield Row("layers", _named(layers), *forms)


def _forms(steps: list[Step]) -> dict[str, str]:
    return {layer: form for step in steps for form, layers in step.forms.items() for layer in layers}


def _record(first: Profile, second: Profile) -> Iterator[Row]:
    if first.record != second.record:
        said = ["none" if each.record is None else "its own" for each in (first, second)]
        yield Row(
            "quantization", "what calibration found", *(said if said[0] != said[1] else ("its own", "another"))
        )


def _named(names: list[str]) -> str:
    rest = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + rest


def _summary(rows: tuple[Row, ...], same: bool | None) -> str:
    files = {True: "Both run the same files", False: "They run different files", None: ""}[same]
    parts = list(dict.fromkeys(row.part for row in rows))
    if not parts:
        return f"{files or 'They are equal'}; only the time of creation differs."
    listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"{files}; they differ in: {listed}." if files else f"They differ in: {listed}."
