"""Random graphs as bundles: loaded, as one file, exported and replayed, they answer what the runtime answers."""

import json
import random
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

import edgeopt
from edgeopt.backends import backend_named
from edgeopt.bundle import write
from edgeopt.bundle.deployment import Deployment, Evidence, Run, SourceModel, Step, Tensor
from edgeopt.bundle.golden import answer_golden
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.request import ReplayRequest
from edgeopt.commands.export.export import export
from edgeopt.commands.profile import export as export_profile
from edgeopt.errors import EdgeoptError, ModelError
from edgeopt.events import ignore
from edgeopt.graph.model import load, save
from edgeopt.graph.passes import standard_passes
from edgeopt.graph.pipeline import run_pipeline, select
from edgeopt.hw.device import fingerprint
from edgeopt.hw.probe import probe
from edgeopt.pipeline.replay import replay
from tests.differential import check
from tests.differential.graphs import BYTES, case_from

BACKEND, OPTIONS = "onnxruntime-cpu", {"threads": 1}
QUICK, SWEPT, SHARDS = 11, 400, 4
SHARE_IN_OPENVINO, SHARE_REPLAYED = 10, 10
"""Their parts start processes."""
GOLDEN = 4


@cache
def device():
    return fingerprint(probe())


def bundled(model, samples, folder, *, single_file=False):
    """The model after all exact passes, written as a search writes it; and what its runtime answers."""
    source = folder / "source.onnx"
    onnx.save(model, source)
    read = load(source)
    out = folder / ("packed.edgeopt" if single_file else "random.edgeopt")
    with write.draft(out) as draft:
        (draft / "model").mkdir()
        file = draft / "model" / "source.onnx"
        save(run_pipeline(read).model_ir, file)
        inputs, outputs, answers = answered(file, samples)
        golden = range(min(GOLDEN, len(samples)))
        for name, runs in (("inputs", samples), ("outputs", answers), ("reference", answers)):
            write.write_golden(draft, name, [runs[k] for k in golden])
        kept = tuple(one.name for one in select(standard_passes()))
        deployment = Deployment(
            name="random",
            created="2026-01-01T00:00:00+00:00",
            edgeopt="0",
            target="generic-cpu",
            summary="a test",
            source=SourceModel("source.onnx", read.digest, source.stat().st_size),
            run=Run(BACKEND, "model/source.onnx", OPTIONS),
            inputs=[Tensor(one.name, one.dtype, [_dim(d) for d in one.shape]) for one in inputs],
            outputs=[Tensor(one.name, one.dtype, [_dim(d) for d in one.shape]) for one in outputs],
            steps=[Step("cleaned", {"passes": list(kept)})],
            device=device(),
            evidence=Evidence("faster", "source", 2.0, 1.0, 2.0, 1.9, 2.1, 11, 200.0, 30.0, len(golden)),
        )
        write.fill(draft, {}, deployment, {"ledger.json": []})
        write.publish(draft, out, single_file=single_file)
    return out, source, answers


def _dim(dim):
    return "?" if dim is None else dim


def answered(path, samples):
    session = backend_named(BACKEND).load(path, OPTIONS)
    answers = [session.run(_taken(session, one)) for one in samples]
    found = session.inputs, session.outputs, [{n: np.array(a) for n, a in one.items()} for one in answers]
    session.close()
    return found


def _taken(session, feeds):
    return {info.name: feeds[info.name] for info in session.inputs if info.name in feeds}


def same(was, now):
    """Not a bit differs: it is the same file in the same runtime with the same options."""
    assert list(was) == list(now)
    for name, array in was.items():
        np.testing.assert_array_equal(now[name], array, name, strict=True)


def runs_alike(path, samples, answers, **how):
    with edgeopt.load(path, **how) as session:
        for feeds, was in zip(samples, answers, strict=True):
            same(was, session.run(_taken(session, feeds)))


def judged(case, folder, number):
    """Raises where one of the ways to use a bundle answers otherwise; False where nothing could be judged."""
    try:
        source = check.Source(case, ("ONNX Runtime",))
    except check.UselessError:
        return False
    taken = {value.name for value in case.model.graph.input}
    samples = [
        {name: array for name, array in sample.feeds.items() if name in taken}
        for sample, answer in zip(source.samples, source.answers("ONNX Runtime"), strict=True)
        if not isinstance(answer, str)
    ]
    onnx.save(case.model, folder / "plain.onnx")
    try:
        answered(folder / "plain.onnx", samples)
    except EdgeoptError:  # the runtime's own rewriting breaks the source: docs/upstream.md
        return False
    bundle, source_path, answers = bundled(case.model, samples, folder)
    runs_alike(bundle, samples, answers)
    packed = bundled(case.model, samples, folder, single_file=True)[0]
    runs_alike(packed, samples, answers)

    export(bundle, "onnx", folder / "onnx", ignore)
    (exported,) = (folder / "onnx").glob("*.onnx")
    runs_alike(exported, samples, answers, backend=BACKEND, options=OPTIONS)
    export(packed, "runner", folder / "runner", ignore)
    runs_alike_in_runner(folder / "runner", samples, answers)
    if number % SHARE_IN_OPENVINO == 0:
        in_openvino(bundle, folder)
    if number % SHARE_REPLAYED == 0:
        replayed(bundle, source_path, samples, answers, folder)
    return True


def runs_alike_in_runner(folder, samples, answers):
    """The script as users call it from Python."""
    names: dict = {"__name__": "runner", "__file__": str(folder / "runner.py")}
    exec(compile((folder / "runner.py").read_text(), "runner.py", "exec"), names)  # noqa: S102 - what was written
    session = names["load"](folder)
    taken = [port["name"] for port in json.loads((folder / "settings.json").read_text())["inputs"]]
    for feeds, was in zip(samples, answers, strict=True):
        same(was, session({name: feeds[name] for name in taken if name in feeds}))


def in_openvino(bundle, folder):
    """What OpenVINO cannot read, or answers otherwise, is refused in a sentence; all else is within the floor."""
    said = ""
    try:
        exported = export(bundle, "openvino-ir", folder / "ir", ignore)
    except EdgeoptError as error:
        said = error.message
    if said:
        assert said.endswith((".", "?"))
    else:
        assert exported.accuracy_db is None or exported.accuracy_db >= exported.floor_db


def replayed(bundle, source, samples, answers, folder):
    again = replay(ReplayRequest(bundle, source, folder / "again.edgeopt"))
    assert again.same_files
    runs_alike(folder / "again.edgeopt", samples, answers)
    assert answer_golden(read_bundle(bundle), edgeopt.load(folder / "again.edgeopt")).accuracy_db == 200
    export_profile(bundle, folder / "random.toml")
    try:
        once_more = replay(
            ReplayRequest(folder / "random.toml", source, folder / "more.edgeopt", single_file=True)
        )
    except ModelError as error:  # a model that runs in few of the sizes that it says it takes
        if "--data" not in error.hint:
            raise
        return
    assert once_more.same_files
    runs_alike(folder / "more.edgeopt", samples, answers)


def walk(count, seed, tmp_path: Path):
    source, judged_ones = random.Random(seed), 0  # noqa: S311 - graphs are no secrets
    wrong = []
    for number in range(count):
        case = case_from(source.randbytes(BYTES + BYTES // 2))
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            judged_ones += judged(case, folder, number)
        except (AssertionError, EdgeoptError) as error:
            wrong.append((case.data.hex(), str(error)))
    assert wrong == []
    assert judged_ones > 0.9 * count


@pytest.mark.slow
def test_bundles_of_random_graphs_answer_alike_however_they_are_used(tmp_path):
    pytest.importorskip("onnxruntime", reason="what the bundles run in")
    walk(QUICK, 2, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_more_of_them(shard, tmp_path):
    walk(SWEPT // SHARDS, 200 + shard, tmp_path)
