"""The smallest case in which a pass changes the results, as a folder for a bug report.

Of the model before the pass only the nodes that the pass changed are kept, one connected group of them where that
still fails; of the samples the one that shows it most.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeopt.errors import EdgeoptError
from edgeopt.version import __version__

if TYPE_CHECKING:
    import onnx_ir as ir

    from edgeopt.backends.base import Backend
    from edgeopt.graph.pipeline import Failure
    from edgeopt.measure.exactness.proof import SourceCheck

LARGEST_BYTES = 512 << 20
"""A case above this is not written; the reason in the ledger must do."""
MOST_GROUPS = 16


@dataclass(frozen=True, slots=True)
class Case:
    """A model that a pass makes another of, and the sample that shows it."""

    before: "ir.Model"
    after: "ir.Model"
    sample: dict[str, Any]
    reason: str


def keep_case(failure: "Failure", check: "SourceCheck", folder: Path) -> str:
    """Writes the case into a folder of its own beside others and returns its path; "" where it is too large.

    In the runtime that showed it.
    """
    from edgeopt.data.samples import from_feeds, write_archive
    from edgeopt.graph.model import save

    check = check.wrong_in[0] if check.wrong_in else check
    case = smallest_case(failure, check)
    if _weights_bytes(case.before) > LARGEST_BYTES:
        return ""
    place = _free(folder / f"edgeopt-failing-case-{failure.guilty.name.replace(':', '-')}")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.") as part:
        ready = Path(part) / place.name
        ready.mkdir()
        save(case.before, ready / "before.onnx")
        save(case.after, ready / "after.onnx")
        write_archive(ready / "sample.npz", from_feeds([case.sample]))
        (ready / "README.md").write_text(_text(failure, case, check.backend), encoding="utf-8")
        ready.rename(place)
    return str(place)


def smallest_case(failure: "Failure", check: "SourceCheck") -> Case:
    """The whole model with one sample, or a part of it where the pass goes wrong on that alone."""
    from edgeopt.graph.turned import as_model_takes

    sample = as_model_takes(_worst_sample(failure, check), failure.before)
    for case in _parts(failure, check, sample):
        if reason := _difference(case, check):
            return Case(case.before, case.after, case.sample, reason)
    return Case(failure.before, failure.after, sample, failure.reason)


def _parts(failure: "Failure", check: "SourceCheck", sample: dict[str, Any]) -> "Iterator[Case]":
    """Parts of the model around what the pass changed, rewritten by it: each group alone, then all at once."""
    from edgeopt.graph.watching import part_of, with_outputs

    groups = _groups(_changed(failure))
    together = [[node for group in groups for node in group]] if len(groups) > 1 else []
    for group in [*groups[:MOST_GROUPS], *together]:
        inputs, outputs = _border(group)
        made = [_name(value) for value in inputs if value.producer() is not None]
        try:
            seen = _run(with_outputs(failure.before, made), check, sample) if made else {}
            fed = {name: seen[name] if name in seen else sample[name] for name in map(_name, inputs)}
            before = part_of(failure.before, inputs, outputs, fed)
            result = failure.guilty.apply(before, failure.context)
        except Exception:  # noqa: BLE001, S112 - a part that cannot be made or run is only not the smallest case
            continue
        if result.applied:
            yield Case(before, result.model, fed, "")


def _changed(failure: "Failure") -> "list[ir.Node]":
    """The nodes of the main graph that are not the same after the pass."""
    import onnx_ir as ir

    left = {ir.to_proto(node).SerializeToString(deterministic=True) for node in failure.after.graph}
    return [
        node
        for node in failure.before.graph
        if ir.to_proto(node).SerializeToString(deterministic=True) not in left
    ]


def _groups(nodes: "list[ir.Node]") -> "list[list[ir.Node]]":
    """The nodes in groups that hang together, the smallest group first."""
    waiting = dict.fromkeys(nodes)
    groups = []
    while waiting:
        group = [next(iter(waiting))]
        del waiting[group[0]]
        for node in group:
            near = [user for value in node.outputs for user, _ in value.uses()]
            near += [maker for value in node.inputs if value is not None and (maker := value.producer())]
            for each in near:
                if each in waiting:
                    del waiting[each]
                    group.append(each)
        groups.append([node for node in nodes if node in set(group)])
    return sorted(groups, key=len)


def _border(group: "list[ir.Node]") -> "tuple[list[ir.Value], list[ir.Value]]":
    inside = set(group)
    inputs = [
        value
        for node in group
        for value in node.inputs
        if value is not None and value.const_value is None and value.producer() not in inside
    ]
    outputs = [
        value
        for node in group
        for value in node.outputs
        if value.is_graph_output() or any(user not in inside for user, _ in value.uses())
    ]
    return list(dict.fromkeys(inputs)), outputs


def _name(value: "ir.Value") -> str:
    return str(value.name)


def _worst_sample(failure: "Failure", check: "SourceCheck") -> dict[str, Any]:
    from edgeopt.graph.accuracy import compare_outputs
    from edgeopt.graph.turned import as_model_takes, as_source_gives

    if check.failing:
        return dict(check.failing[0])

    def ratio(sample: dict[str, Any]) -> float:
        try:
            before, after = (
                as_source_gives([_run(model, check, as_model_takes(sample, model))], model)
                for model in (failure.before, failure.after)
            )
        except EdgeoptError:
            return -1000.0
        return compare_outputs(before, after).snr_db

    return min(check.feeds, key=ratio)


def _difference(case: Case, check: "SourceCheck") -> str | None:
    from edgeopt.graph.accuracy import compare_outputs
    from edgeopt.graph.turned import as_model_takes, as_source_gives
    from edgeopt.measure.exactness.rounding import difference

    try:
        wanted = _run(case.before, check, case.sample)
    except EdgeoptError:
        return None
    try:
        got = _run(case.after, check, as_model_takes(case.sample, case.after))
        accuracy = compare_outputs([wanted], as_source_gives([got], case.after))
    except EdgeoptError as error:
        return error.message.rstrip(".")
    if accuracy.problem:
        return accuracy.problem.rstrip(".")
    if accuracy.snr_db < check.floor_db:
        return f"{accuracy.snr_db:.1f} dB"
    return difference(wanted, as_source_gives([got], case.after)[0])


def _run(model: "ir.Model", check: "SourceCheck", sample: dict[str, Any]) -> dict[str, Any]:
    from edgeopt.backends.running import run_all
    from edgeopt.graph.model import save

    with tempfile.TemporaryDirectory(dir=check.folder.name) as folder:
        save(model, Path(folder) / "part.onnx")
        return run_all(Path(folder) / "part.onnx", [sample], check.backend)[0]


def _weights_bytes(model: "ir.Model") -> int:
    weights = [w.const_value for graph in model.graphs() for w in graph.initializers.values()]
    return sum(weight.nbytes for weight in weights if weight is not None)


def _free(path: Path) -> Path:
    """This path, or with a number where something is there already."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def _text(failure: "Failure", case: Case, backend: "Backend") -> str:
    return f"""The pass `{failure.guilty.name}` of edgeopt {__version__} changes the results of `before.onnx`
in {backend.title}: {case.reason}.

- `before.onnx`: the smallest part of the model, as it was before the pass, on which it goes wrong
- `after.onnx`: the same after the pass
- `sample.npz`: the input that shows it

To see it: `edgeopt compare before.onnx after.onnx --data sample.npz --backend {backend.name}`, and for the pass
itself `edgeopt simplify before.onnx -o again.onnx --only {failure.guilty.name} --data sample.npz`.

All three files hold parts of your model and of your data: look at them before you hand them on.
"""
