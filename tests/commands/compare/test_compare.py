import msgspec
import numpy as np
import onnx
import onnx.parser
import pytest

from edgeopt.bundle import write
from edgeopt.bundle.deployment import Deployment, Evidence, Run, SourceModel, Tensor
from edgeopt.cli.compare import sections, verdict
from edgeopt.commands.compare.compare import compare
from edgeopt.commands.compare.request import ModelCompareRequest
from edgeopt.errors import DataError

pytest.importorskip("onnxruntime", reason="models are run in ONNX Runtime")
LAYERS = "a = Mul(x, w)  b = Sigmoid(a)  c = Sqrt(b)  d = Mul(c, v)  e = Tanh(d)  f = Exp(e)  y = Abs(f)"


@pytest.fixture
def model(tmp_path):
    def write(name, body=LAYERS, ports="(float[B,4] x) => (float[B,4] y)", w=1.5, v=0.5, **more):
        size = 16 if "16" in ports else 4
        proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {ports} {{ {body} }}')
        for key, value in {"w": w, "v": v, **more}.items():
            weights = np.broadcast_to(np.float32(value), size).copy()
            proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, key))
        onnx.save(proto, tmp_path / f"{name}.onnx")
        return tmp_path / f"{name}.onnx"

    return write


@pytest.fixture
def make_bundle(tmp_path):
    """A bundle of a model, which runs as it is told and was made to hold a floor."""

    def make(path, run, floor_db):
        tensor = [Tensor("x", "float32", ["B", 4])]
        evidence = Evidence("faster", "source", 2.0, 1.0, 2.0, 1.9, 2.1, 11, 200.0, floor_db, 3)
        source, outputs = SourceModel(path.name, "0" * 64, 1), [Tensor("y", "float32", ["B", 4])]
        told = Deployment("m", "2026-01-01T00:00:00+00:00", "0", "quick", "a test", source, run, tensor, outputs)
        told = msgspec.structs.replace(told, evidence=evidence)
        out = tmp_path / f"{path.stem}-{floor_db:g}.edgeopt"
        with write.draft(out) as folder:
            write.fill(folder, {path.name: path}, told, {"ledger.json": []})
            write.publish(folder, out)
        return out

    return make


def test_a_model_is_equal_to_itself(model):
    path = model("a")
    found = compare(ModelCompareRequest(path, path))
    assert found.within
    assert (found.snr_db, found.outputs[0].agreement, found.layers) == (200.0, 1.0, None)
    assert (found.first.nodes, found.first.operators["Mul"]) == (7, 2)
    assert (found.graph.kept, found.graph.changes) == (7, ())


def test_the_first_layer_that_differs_is_found(model):
    found = compare(ModelCompareRequest(model("a"), model("b", v=0.501)))
    assert not found.within
    assert 30 < found.snr_db < 80
    assert found.layers.first.node == "Mul 'd'"
    assert next(p.value for p in found.layers.probes if p.snr_db < 80) == "d"
    assert found.graph.changes[0].what == "other weights (input 1)"


def test_it_is_found_in_a_long_chain_with_few_values_at_a_time(model, monkeypatch):
    """120 layers: nowhere near all of them are looked at, and never more than a handful in one run."""
    from edgeopt.commands.compare import layers

    def chain(fault):
        body = [f"v{k + 1} = {'Tanh' if k % 2 else 'Abs'}(v{k}{'x' if k == fault else ''})" for k in range(120)]
        if fault is not None:
            body.insert(fault, f"v{fault}x = Mul(v{fault}, s)")
        return f"v0 = Mul(x, w)  {'  '.join(body)}  y = Identity(v120)"

    seen = []
    run = layers.LayerRunner.values
    monkeypatch.setattr(
        layers.LayerRunner, "values", lambda self, names: seen.append(len(names)) or run(self, names)
    )
    first, second = model("a", chain(None)), model("b", chain(77).replace("(v77, s)", "(v77, v)"), v=0.9)
    found = compare(ModelCompareRequest(first, second))
    assert found.layers.first.value == "v78"
    assert max(seen) <= 8
    assert sum(seen) < 80


def test_a_fault_on_one_branch_is_not_hidden_by_right_values_on_another(model):
    """The right branch stands behind the wrong one in the file."""

    def branches(factor):
        left = [f"l{k + 1} = Tanh(l{k})" for k in range(20)]
        right = [f"r{k + 1} = Abs(r{k})" for k in range(60)]
        return f"l0 = Mul(x, {factor})  {'  '.join(left)}  r0 = Neg(x)  {'  '.join(right)}  y = Add(l20, r60)"

    found = compare(ModelCompareRequest(model("a", branches("w")), model("b", branches("v"), w=1.0, v=1.4)))
    assert found.layers.first.value == "l0"


def test_layers_are_looked_at_where_they_are_asked_for(model):
    path = model("a")
    found = compare(ModelCompareRequest(path, path, layers=True))
    assert found.layers.first is None
    assert found.layers.probes
    other = compare(ModelCompareRequest(path, model("b", w=2.0), layers=False))
    assert other.layers is None


def test_the_users_data_are_run(model, tmp_path):
    np.savez(tmp_path / "data.npz", x=np.zeros((3, 1, 4), np.float32))
    found = compare(ModelCompareRequest(model("a"), model("b", w=9.0), data=tmp_path / "data.npz"))
    assert (found.samples, found.within) == (3, True)  # at zero the factor changes nothing
    np.savez(tmp_path / "wrong.npz", z=np.zeros(3, np.float32))
    with pytest.raises(DataError, match="no array for the model's input 'x'"):
        compare(ModelCompareRequest(model("a"), model("b"), data=tmp_path / "wrong.npz"))


def test_other_names_of_inputs_and_outputs_are_matched_by_place(model):
    other = model(
        "b", LAYERS.replace("(x, w)", "(p, w)").replace("y =", "q ="), "(float[B,4] p) => (float[B,4] q)"
    )
    found = compare(ModelCompareRequest(model("a"), other))
    assert found.within
    assert len(found.notes) == 2


OTHER_INPUTS = (
    ("(float[B,4] x, float[B,4] z) => (float[B,4] y)", "different inputs"),
    ("(float[2,B,4] x) => (float[2,B,4] y)", "take different inputs"),
    ("(double[B,4] p) => (double[B,4] y)", "take different inputs"),
)


@pytest.mark.parametrize(("ports", "said"), OTHER_INPUTS)
def test_models_with_different_inputs_are_told_apart_in_a_sentence(model, ports, said):
    body = "y = Tanh(p)" if "p)" in ports else "y = Tanh(x)"
    found = compare(ModelCompareRequest(model("a"), model("b", body, ports)))
    assert said in found.not_compared
    assert not found.within
    assert found.graph is not None


def test_a_missing_output_is_told(model):
    two = model("a", f"{LAYERS}  z = Neg(y)", "(float[B,4] x) => (float[B,4] y, float[B,4] z)")
    found = compare(ModelCompareRequest(two, model("b")))
    assert not found.within
    assert "'z' is missing" in next(o.problem for o in found.outputs if o.problem)
    back = compare(ModelCompareRequest(model("b"), two))
    assert back.within
    assert "has the outputs: z" in back.notes[0]


def test_one_model_in_two_runtimes(model):
    pytest.importorskip("openvino")
    path = model("a")
    found = compare(
        ModelCompareRequest(path, path, backend_a="onnxruntime-cpu", backend_b="openvino-cpu", floor_db=30)
    )
    assert found.within
    assert (found.first.runtime, found.second.runtime) == ("ONNX Runtime, CPU", "OpenVINO, CPU")


def test_a_model_and_its_openvino_form(model, tmp_path):
    openvino = pytest.importorskip("openvino")
    path = model("a")
    openvino.save_model(openvino.convert_model(path), tmp_path / "a.xml", compress_to_fp16=False)
    found = compare(ModelCompareRequest(path, tmp_path / "a.xml"))
    assert found.within
    assert found.graph is None
    assert "only between ONNX models" in found.no_graph
    assert found.second.operators


def test_a_bundle_runs_as_it_says(conv_model, conv_bundle):
    found = compare(ModelCompareRequest(conv_model, conv_bundle))
    assert found.within
    assert found.second.kind == "bundle"
    assert found.second.runtime == "ONNX Runtime, CPU"


def test_a_model_beside_a_bundle_runs_in_plain_onnx_runtime(model, make_bundle):
    """In the bundle's runtime too, it would have the same error, and a gate would see none."""
    pytest.importorskip("openvino")
    path = model("a")
    bundle = make_bundle(path, Run("openvino-cpu", "model/a.onnx", {"precision": "bf16"}), floor_db=20.0)
    for request in (ModelCompareRequest(path, bundle), ModelCompareRequest(bundle, path)):
        found = compare(request)
        assert {found.first.runtime, found.second.runtime} == {"ONNX Runtime, CPU", "OpenVINO, CPU"}
        assert found.floor_db == 20.0
    assert compare(ModelCompareRequest(path, bundle, floor_db=35.0)).floor_db == 35.0
    assert compare(ModelCompareRequest(bundle, bundle)).floor_db == 20.0
    named = compare(ModelCompareRequest(path, bundle, backend="openvino-cpu"))
    assert named.first.runtime == named.second.runtime == "OpenVINO, CPU"


def test_a_bundle_below_its_own_floor_is_not_within(model, make_bundle):
    wrong = make_bundle(model("b", v=0.6), Run("onnxruntime-cpu", "model/b.onnx"), floor_db=30.0)
    found = compare(ModelCompareRequest(model("a"), wrong))
    assert (found.floor_db, found.within) == (30.0, False)
    none = make_bundle(model("b", v=0.6), Run("onnxruntime-cpu", "model/b.onnx"), floor_db=0.0)
    found = compare(ModelCompareRequest(model("a"), none))
    assert (found.floor_db, found.within) == (80.0, False)
    assert "no floor in dB" in found.notes[0]


def test_all_samples_of_the_user_count(model, tmp_path):
    """Only the last one differs."""
    x = np.zeros((20, 1, 4), np.float32)
    x[-1] = 1.0
    np.savez(tmp_path / "data.npz", x=x)
    found = compare(ModelCompareRequest(model("a"), model("b", w=9.0), data=tmp_path / "data.npz"))
    assert (found.samples, found.within) == (20, False)


def test_a_loud_answer_does_not_hide_nineteen_that_are_zero(tmp_path):
    """Over all samples together, the ratio is 39.2 dB."""
    sides = []
    for name, quiet in (("a", 1.0), ("b", 0.0)):
        table = np.full((20, 4), quiet, np.float32)
        table[0] = 400.0
        body = "(int64[1] x) => (float[1,4] y) { y = Gather(table, x) }"
        proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {body}')
        proto.graph.initializer.append(onnx.numpy_helper.from_array(table, "table"))
        onnx.save(proto, tmp_path / f"{name}.onnx")
        sides.append(tmp_path / f"{name}.onnx")
    np.savez(tmp_path / "data.npz", x=np.arange(20)[:, None])

    found = compare(ModelCompareRequest(*sides, data=tmp_path / "data.npz", floor_db=30.0, layers=False))

    assert found.outputs[0].snr_db == pytest.approx(39.2, abs=0.1)
    assert (found.within, found.is_tail_below) == (False, True)
    assert "the worst tenth of the samples 0.0 dB, the lowest 0.0" in verdict(found)


def test_quiet_inputs_that_come_out_wrong_are_not_within_the_floor(tmp_path):
    x = np.random.default_rng(0).standard_normal((20, 1, 8)).astype(np.float32)
    x[1:] *= 0.01
    np.savez(tmp_path / "data.npz", x=x)
    sides = []
    for name, body in (("a", "y = Identity(x)"), ("b", "s = Abs(x)  k = Greater(s, t)  y = Where(k, x, z)")):
        proto = onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["" : 17]> g (float[1,8] x) => (float[1,8] y) {{ {body} }}'
        )
        for key, value in {"t": 0.05, "z": 0.0}.items() if name == "b" else ():
            proto.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(value), key))
        onnx.save(proto, tmp_path / f"{name}.onnx")
        sides.append(tmp_path / f"{name}.onnx")

    found = compare(ModelCompareRequest(*sides, data=tmp_path / "data.npz", floor_db=15.0, layers=False))

    assert found.outputs[0].snr_db > 15
    assert not found.within
    assert found.weakest.levels == 2
    assert "of the loudest" in verdict(found)


def test_what_no_runtime_runs_is_said_and_compared_as_a_graph(model):
    path = model("a", "y = Toast(x)")
    proto = onnx.load(path)
    proto.graph.node[0].domain = "kitchen"
    proto.opset_import.append(onnx.helper.make_opsetid("kitchen", 1))
    onnx.save(proto, path)
    found = compare(ModelCompareRequest(path, path))
    assert "No installed runtime runs" in found.not_compared
    assert (found.graph.kept, found.within, found.outputs) == (1, False, ())


def test_made_up_samples_that_do_not_fit_ask_for_data(model):
    ports = "(float[N,4] x, int64[2] s) => (float[P,Q] y)"
    path = model("a", body="y = Reshape(x, s)", ports=ports)
    found = compare(ModelCompareRequest(path, path))
    assert "Pass samples with --data" in found.not_compared
    assert found.graph.kept == 1


def branch(matmul):
    return f"m = {matmul}  n = Add(m, z)  r = Add(n, big)  s = Tanh(r)  t = Abs(s)  y = Neg(t)"


@pytest.fixture
def kernels(model, tmp_path):
    """Two models that multiply by these matrices, and data for them."""

    def write(first, second):
        ports = "(float[B,16,16] x, float[B,16,16] big) => (float[B,16,16] y)"
        paths = []
        for name, kernel in (("a", first), ("b", second)):
            paths.append(model(name, branch("MatMul(x, k)"), ports, k=0.0, z=0.0))
            proto = onnx.load(paths[-1])
            (old,) = (each for each in proto.graph.initializer if each.name == "k")
            old.CopyFrom(onnx.numpy_helper.from_array(kernel.astype(np.float32), "k"))
            onnx.save(proto, paths[-1])
        x = np.random.default_rng(0).standard_normal((4, 16, 16)).astype(np.float32)
        np.savez(tmp_path / "d.npz", x=x, big=5 * x[::-1])
        return ModelCompareRequest(*paths, data=tmp_path / "d.npz")

    return write


KERNEL = 0.1 * np.random.default_rng(1).standard_normal((16, 16))


@pytest.mark.parametrize("factor", [1.01, 1.5])
def test_a_layer_off_by_a_factor_is_the_first_where_nothing_takes_the_factor_back(kernels, factor):
    """A residual addition behind it dilutes the error."""
    found = compare(kernels(KERNEL, factor * KERNEL))
    assert found.layers.first.value == "m"


def test_a_layer_with_noise_of_its_own_is_not_rescaled(kernels):
    """A factor for each feature fits a part of any noise, and so lifts it over a floor just above."""
    draw = np.random.default_rng(2).standard_normal
    request = kernels(KERNEL, KERNEL * (1 + 0.2 * draw(16)) + 0.01 * draw((16, 16)))
    found = compare(msgspec.structs.replace(request, floor_db=18.0, layers=True))
    (probe,) = (each for each in found.layers.probes if each.value == "m")
    assert 10 < probe.snr_db < 18
    assert not probe.rescaled
    assert found.layers.first.value == "m"


def test_a_scale_that_a_later_layer_takes_back_is_not_the_first_difference(model, tmp_path):
    """As weights are evened out between two layers, and the second is wrong besides."""
    ports = "(float[B,16,16] x) => (float[B,16,16] y)"
    body = "a = Mul(x, w)  b = Relu(a)  c = Mul(b, v)  d = Add(c, {})  e = Tanh(d)  y = Abs(e)"
    first = model("a", body.format("u"), ports, u=0.0)
    second = model("b", body.format("u"), ports, w=[0.1, 9.0] * 8, v=[7.5, 0.75 / 9] * 8, u=0.05)
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).standard_normal((4, 16, 16)).astype(np.float32))
    found = compare(ModelCompareRequest(first, second, data=tmp_path / "d.npz", floor_db=40.0))
    probes = {probe.value: probe for probe in found.layers.probes}
    assert found.layers.first.value == "d"
    assert not found.layers.first.rescaled
    assert probes["b"].rescaled
    assert probes["b"].snr_db < 10
    assert any("rescaled" in cell for each in sections(found) for cell in str(each).split("'"))
