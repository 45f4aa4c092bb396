import json
import re

import numpy as np
import onnx
import onnx.parser
import pytest
import typer
from typer.testing import CliRunner

from edgeopt.cli.simplify import simplify

TEXT = """<ir_version: 8, opset_import: ["" : 17]> g (float[B,2] x) => (float[B,2] y) {
    one = Constant <value_float = 1.0> ()  two = Add(one, one)  a = Mul(x, two)  b = Identity(a)  y = Relu(b) }"""


@pytest.fixture
def command(tmp_path):
    """Runs `edgeopt simplify` in this process: exit code, standard output, standard error."""
    application = typer.Typer()
    application.command()(simplify)

    def run(*arguments):
        result = CliRunner().invoke(application, [str(a) for a in arguments], catch_exceptions=False)
        return result.exit_code, result.stdout, result.stderr

    return run


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), path)
    return path


def last(output):
    return json.loads(output.strip().splitlines()[-1])


@pytest.fixture
def runtime():
    pytest.importorskip("onnxruntime", reason="verification runs on ONNX Runtime")


@pytest.mark.usefixtures("runtime")
def test_writes_a_smaller_model_and_proves_it(command, source, tmp_path):
    before = source.read_bytes()
    code, output, _ = command(source, "-o", tmp_path / "out.onnx")
    assert code == 0
    assert [n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node] == ["Mul", "Relu"]
    assert "5 nodes → 2" in output
    assert "in ONNX Runtime, CPU.\nThey agree with the source in OpenVINO, CPU too." in output
    assert re.search(
        r"Equal in every value on 4 generated samples and \d+ input distributions in ONNX Runtime", output
    )
    assert "fold-constants" in output
    assert source.read_bytes() == before


@pytest.mark.usefixtures("runtime")
def test_the_json_result_holds_the_ledger(command, source, tmp_path):
    np.savez(tmp_path / "data.npz", x=np.ones((3, 1, 2), np.float32))
    code, output, _ = command(
        source, "-o", tmp_path / "out.onnx", "--json", "--bisect", "--data", tmp_path / "data.npz"
    )
    result = last(output)
    assert (code, result["event"], result["kind"]) == (0, "result", "simplify")
    assert result["data"]["samples"] == 3
    assert result["data"]["samples_given"]
    assert {"silence", "quiet", "ends of the type"} <= set(result["data"]["regimes"])
    assert result["data"]["regimes_left_out"] == []
    assert result["data"]["snr_db"] == 200.0
    (folded,) = (e for e in result["data"]["ledger"] if "fold-constants" in e.values())
    assert folded["snr_db"] == 200.0
    assert folded["nodes_before"] - folded["nodes_after"] == 3


@pytest.mark.usefixtures("runtime")
def test_what_the_proof_stands_on_is_told_and_what_it_does_not(command, write_model, tmp_path):
    model = write_model("""g (float[1,T] x) => (float[1,M,4] y) {
        shape = Constant<value_ints = [1, -1, 4]>()  y = Reshape(x, shape) }""")
    np.savez(tmp_path / "data.npz", x=np.ones((2, 1, 8), np.float32))
    _, output, _ = command(model, "-o", tmp_path / "out.onnx", "--data", tmp_path / "data.npz")
    flat = " ".join(output.split())
    assert re.search(r"on your 2 samples and \d+ input distributions", flat)
    assert "Not proved on the input distribution 'shortest': the source does not run there" in flat


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("nan", "is NaN or infinity everywhere, so it cannot show the accuracy."),
        ("0", "is almost zero on all samples, so it cannot show the accuracy."),
        ("2", "is the same on all 4 samples, so its accuracy is that of a single result."),
    ],
)
def test_equal_outputs_that_show_nothing_are_named(command, tmp_path, value, why):
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (float[B,2] x) => (float[B,2] y)
        <float[2] c = {1.0, 1.0}> { a = Sub(x, x)  b = Identity(a)  y = Add(b, c) }""")
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.full(2, value).astype(np.float32), "c"))
    onnx.save(model, tmp_path / "model.onnx")
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(0).normal(size=(4, 1, 2)).astype(np.float32))
    code, output, _ = command(
        tmp_path / "model.onnx", "-o", tmp_path / "out.onnx", "--data", tmp_path / "data.npz"
    )
    assert code == 0
    assert f"The output 'y' {why}" in " ".join(output.split())


def test_only_and_skip_choose(command, source, tmp_path):
    command(source, "-o", tmp_path / "one.onnx", "--only", "identities")
    assert "Identity" not in [n.op_type for n in onnx.load(tmp_path / "one.onnx").graph.node]
    assert "Constant" in [n.op_type for n in onnx.load(tmp_path / "one.onnx").graph.node]


@pytest.mark.usefixtures("runtime")
def test_bisect_names_the_pass_that_changed_most(command, source, tmp_path):
    """A little off is within the floor of 80 dB, and it is this rule's doing."""
    (tmp_path / "near.py").write_text(NEARLY_RIGHT)
    _, output, _ = command(source, "-o", tmp_path / "out.onnx", "--bisect", "--rules", tmp_path / "near.py")
    assert "The pass that changed the results most: near:rule." in output
    assert "accuracy" in output


NEARLY_RIGHT = """
def pattern(op, x):
    return op.Relu(x)
def check(context, x):
    return x.producer().op_type != "Div"
def replacement(op, x):
    return op.Relu(op.Div(x, op.Constant(value_float=1.000005)))
"""


def test_without_a_runtime_the_result_is_written_and_said_to_be_unproved(command, source, tmp_path, monkeypatch):
    import dataclasses

    import edgeopt.backends
    from edgeopt.backends import null
    from edgeopt.hw.device import Unavailable

    missing = dataclasses.replace(null.BACKEND, available=lambda: Unavailable("it is not installed", "cpu"))
    monkeypatch.setattr(edgeopt.backends, "backend_named", lambda _: missing)
    code, output, _ = command(source, "-o", tmp_path / "out.onnx")
    assert code == 0
    assert "Not verified" in output
    assert "it is not installed" in output
    assert (tmp_path / "out.onnx").exists()


@pytest.mark.usefixtures("runtime")
def test_a_shape_is_fixed_and_the_model_proved_in_it(command, source, tmp_path):
    code, output, _ = command(source, "-o", tmp_path / "out.onnx", "--shape", "x=3x2", "--json")
    (dimensions,) = [i.type.tensor_type.shape.dim for i in onnx.load(tmp_path / "out.onnx").graph.input]
    assert (code, [d.dim_value for d in dimensions]) == (0, [3, 2])
    assert last(output)["data"]["snr_db"] == 200.0


@pytest.mark.usefixtures("runtime")
def test_the_ledger_is_written_where_it_is_wanted(command, source, tmp_path):
    command(source, "-o", tmp_path / "out.onnx", "--ledger", tmp_path / "ledger.json")
    written = json.loads((tmp_path / "ledger.json").read_text())
    assert written["runtime"] == "ONNX Runtime, CPU"
    assert all(entry["seconds"] > 0 for entry in written["ledger"])


def test_without_verification_nothing_is_run(command, source, tmp_path, monkeypatch):
    import edgeopt.backends

    monkeypatch.setattr(edgeopt.backends, "backend_named", lambda name: pytest.fail(f"asked for {name}"))
    code, output, _ = command(source, "-o", tmp_path / "out.onnx", "--no-verify")
    assert code == 0
    assert "Not verified: --no-verify was given." in output


WRONG_RULE = """
NAME = "half"
def pattern(op, x):
    return op.Relu(x)
def replacement(op, x):
    return op.Neg(x)
"""


@pytest.mark.usefixtures("runtime")
def test_a_rule_of_the_users_that_is_wrong_is_rolled_back(command, source, tmp_path):
    (tmp_path / "mine.py").write_text(WRONG_RULE)
    out = tmp_path / "out"
    out.mkdir()
    code, output, errors = command(source, "-o", out / "out.onnx", "--rules", tmp_path / "mine.py")
    assert code == 0
    assert "it changes the results" in output
    assert "mine:half" in output
    assert [n.op_type for n in onnx.load(out / "out.onnx").graph.node] == ["Mul", "Relu"]
    assert "The pass 'mine:half' was rolled back" in errors
    assert [file.name for file in out.iterdir()] == ["out.onnx"]


@pytest.mark.usefixtures("runtime")
def test_a_model_whose_results_are_random_is_written_and_said_to_be_unproved(command, tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) {
        r = RandomNormalLike(x)  i = Identity(r)  y = Add(x, i) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "random.onnx")
    code, _, errors = command(tmp_path / "random.onnx", "-o", tmp_path / "out.onnx")
    assert code == 3
    assert "draws random numbers: 1 RandomNormalLike" in errors
    code, output, _ = command(tmp_path / "random.onnx", "-o", tmp_path / "out.onnx", "--allow-random")
    assert code == 0
    assert "draws random numbers" in output
    np.savez(tmp_path / "data.npz", x=np.ones((2, 4), np.float32))
    given = ("-o", tmp_path / "out.onnx", "--data", tmp_path / "data.npz", "--allow-random")
    code, *_ = command(tmp_path / "random.onnx", *given)
    assert code == 6


@pytest.mark.parametrize("option", ["-o", "--ledger"])
def test_outputs_do_not_replace_the_samples(command, source, tmp_path, option):
    data = tmp_path / "data.npz"
    np.savez(data, x=np.ones((2, 2), np.float32))
    before = data.read_bytes()
    code, _, error = command(source, "-o", tmp_path / "out.onnx", "--data", data, option, data)
    assert (code, data.read_bytes()) == (2, before)
    assert "is an input and would be replaced" in error


WRONG = (
    (("model.onnx", "-o", "out.onnx", "--shape", "x=3xtwo"), 2, "is not a shape"),
    (("model.onnx", "-o", "out.onnx", "--opset", "99"), 2, "There is no opset 99"),
    (("model.onnx", "-o", "out.onnx", "--rules", "mine.py"), 3, "cannot be read"),
    (("model.onnx", "-o", "out.onnx", "--also", "dead-node"), 2, "did you mean 'dead-nodes'"),
    (("model.onnx", "-o", "out.onnx", "--ledger", "missing/ledger.json"), 2, "does not exist"),
    (("model.onnx", "-o", "out.onnx", "--ledger", "model.onnx"), 2, "would overwrite the source"),
    (("model.onnx", "-o", "model.onnx"), 2, "would overwrite the source"),
    (("model.onnx", "-o", "/dev/null"), 2, "not a plain file"),
    (("model.onnx", "-o", "out.onnx", "--shape", "z=1x2"), 2, "no input 'z'"),
    (("model.onnx", "-o", "out.onnx", "--only", "fold-constant"), 2, "did you mean 'fold-constants'"),
    (("model.onnx", "-o", "missing/out.onnx"), 2, "does not exist"),
    (("nothing.onnx", "-o", "out.onnx"), 3, "There is no file"),
    (("model.onnx", "-o", "out.onnx", "--data", "nothing.npz"), 3, "There is no data"),
)


@pytest.mark.parametrize(("arguments", "wanted", "said"), WRONG)
@pytest.mark.usefixtures("runtime")
def test_what_goes_wrong_is_one_sentence_and_an_exit_code(
    command, source, tmp_path, monkeypatch, arguments, wanted, said
):
    monkeypatch.chdir(tmp_path)
    code, output, _ = command(*arguments, "--json")
    assert code == wanted
    assert said in last(output)["message"]
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.usefixtures("runtime")
def test_a_clip_of_half_precision_that_one_runtime_refuses_rolls_no_other_pass_back(command, tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 8]> g (float16[1,4] x) => (float16[1,4] y) {
        a = Identity(x)  y = Clip<min = -1.0, max = 1.0>(a) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    code, output, error = command(tmp_path / "model.onnx", "-o", tmp_path / "out.onnx", "--json")
    assert code == 0, error
    rolled_back = {one["pass_name"] for one in last(output)["data"]["ledger"] if one.get("rolled_back")}
    assert rolled_back <= {"raise-opset"}


@pytest.mark.usefixtures("runtime")
def test_the_state_of_a_loop_may_outgrow_the_shape_that_its_body_declares(command, tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]> g (int64 n, int64[1,1] start) => (int64[1,M] y) {
        go = Constant<value = bool {1}>()
        y = Loop (n, go, start) <body = b (int64 i, bool c, int64[1,1] v) => (bool c2, int64[1,M] v2) {
            c2 = Identity(c)  s = Shape(v)  one = Constant<value_ints = [1]>()  k = Gather(s, one)
            ones = Constant<value_ints = [1, 1]>()  nx = Reshape(k, ones)  v2 = Concat<axis = 1>(v, nx) }> }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    code, output, error = command(tmp_path / "model.onnx", "-o", tmp_path / "out.onnx", "--json")
    assert code == 0, error
    assert [one["pass_name"] for one in last(output)["data"]["ledger"] if one.get("rolled_back")] == []
    import onnxruntime

    # ONNX Runtime believes the file, so that each turn sees one column: the result answers as the file does.
    feeds = {"n": np.array(4), "start": np.ones((1, 1), np.int64)}
    sessions = [onnxruntime.InferenceSession(tmp_path / name) for name in ("model.onnx", "out.onnx")]
    (wanted,), (found,) = (session.run(None, feeds) for session in sessions)
    assert found.tolist() == wanted.tolist()


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize(
    ("text", "guilty"),
    [
        (
            "g (float[1,2,8,8] x) => (float[1,2,1,1] y) { y = ReduceMax<axes = [2, 3], keepdims = 1>(x) }",
            "global-pooling",
        ),
        (
            """g (float[1,64] x) => (float[1,64] y) {
                h = Constant<value_float = 0.5>()  p = Pow(x, h)  y = Reciprocal(p) }""",
            "operator-forms",
        ),
        (
            """g (float[1,1,2,2] x) => (float[1,1,3,3] y) { p = Constant<value_ints = [0, 0, 1, 1, 0, 0, 1, 1]>()
            low = Constant<value = float {-3.4028234663852886e38}>()  b = Pad(x, p, low)
            y = MaxPool<kernel_shape = [2, 2]>(b) }""",
            "pad-into-pool",
        ),
    ],
)
def test_what_is_exact_for_finite_inputs_only_is_marked_and_left_out_by_strict(command, tmp_path, text, guilty):
    header = '<ir_version: 8, opset_import: ["" : 17]> '
    onnx.save(onnx.parser.parse_model(header + text), tmp_path / "model.onnx")
    names = {}
    for options in ((), ("--strict",)):
        code, output, error = command(tmp_path / "model.onnx", "-o", tmp_path / "out.onnx", "--json", *options)
        assert code == 0, error
        names[options] = last(output)["data"]
    applied = {one["pass_name"] for one in names[()]["ledger"] if one.get("finite_only")}
    assert guilty in applied
    assert names[()]["differs_at_edges"]
    assert guilty not in {one["pass_name"] for one in names[("--strict",)]["ledger"] if one.get("applied")}
    assert not names[("--strict",)].get("differs_at_edges")
    assert {"NaN", "infinities", "minus infinity"} <= set(names[("--strict",)]["regimes"])


@pytest.mark.usefixtures("runtime")
def test_empty_inputs_are_proved_by_strict(command, tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[B,S,8] x) => (float[B,M,4] y) {
        s = Shape(x)  i0 = Constant<value_ints = [0]>()  i1 = Constant<value_ints = [1]>()
        b = Gather(s, i0)  t = Gather(s, i1)  two = Constant<value_ints = [2]>()  u = Mul(t, two)
        four = Constant<value_ints = [4]>()  r = Concat<axis = 0>(b, u, four)  y = Reshape(x, r) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    code, output, error = command(tmp_path / "model.onnx", "-o", tmp_path / "out.onnx", "--json")
    assert code == 0, error
    assert "no rows" in last(output)["data"]["differs_at_edges"]
    marked = {one["pass_name"] for one in last(output)["data"]["ledger"] if one.get("nonempty_only")}
    assert marked == {"fold-shapes"}
    code, output, error = command(tmp_path / "model.onnx", "-o", tmp_path / "out.onnx", "--json", "--strict")
    assert code == 0, error
    assert {"no rows", "empty"} <= set(last(output)["data"]["regimes"])
    assert not last(output)["data"].get("differs_at_edges")
    assert not any(one.get("rolled_back") for one in last(output)["data"]["ledger"])


@pytest.mark.usefixtures("runtime")
def test_strict_makes_no_attention_that_fails_where_one_dimension_alone_is_empty(command, tmp_path):
    # Without a batch the source fails too, because of the -1, and so it does where all sizes are 0.
    text = """<ir_version: 10, opset_import: ["" : 23]> g (float[N,T,8] x) => (float[N,T,8] y) {
        heads = Constant <value_ints = [0, -1, 2, 4]> ()  whole = Constant <value_ints = [0, 0, 8]> ()
        r = Reshape(x, heads)  q = Transpose <perm = [0, 2, 1, 3]> (r)  k = Transpose <perm = [0, 2, 3, 1]> (r)
        s = MatMul(q, k)  w = Softmax <axis = -1> (s)  c = MatMul(w, q)
        t = Transpose <perm = [0, 2, 1, 3]> (c)  y = Reshape(t, whole) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    found = {}
    for options in ((), ("--strict",)):
        code, output, error = command(tmp_path / "model.onnx", "-o", tmp_path / "out.onnx", "--json", *options)
        assert code == 0, error
        found[options] = last(output)["data"]
    usual, strict = found.values()
    assert "one size 0" in usual["differs_at_edges"]
    assert "attention" in {one["pass_name"] for one in usual["ledger"] if one.get("nonempty_only")}
    assert "one size 0" in strict["regimes"]
    assert not strict.get("differs_at_edges")
    assert not any(one.get("rolled_back") for one in strict["ledger"])
    onnxruntime = pytest.importorskip("onnxruntime", reason="runs the result")
    session = onnxruntime.InferenceSession(tmp_path / "out.onnx")
    assert session.run(None, {"x": np.zeros((2, 0, 8), np.float32)})[0].shape == (2, 0, 8)


@pytest.mark.parametrize("flag", ["-o", "--out", "--output"])
def test_out_names_the_result(command, source, tmp_path, flag):
    code, _, err = command(source, flag, tmp_path / "small.onnx", "--no-verify")
    assert code == 0, err
    assert (tmp_path / "small.onnx").is_file()


@pytest.mark.usefixtures("runtime")
def test_a_pass_whose_result_differs_in_openvino_alone_is_left_out_and_said(command, write_model, tmp_path):
    pytest.importorskip("openvino", reason="a fault of OpenVINO")
    random = np.random.default_rng(0)
    source = write_model(
        """g (float[1,3,16,16] x) => (float[1,16,16,16] y) {
            a = Conv<pads = [1, 1, 1, 1]>(x, w)  b = Relu(a)  p = Reshape(b, five)
            q = Transpose<perm = [0, 2, 1, 3, 4]>(p)  s = Reshape(q, four)  y = Conv(s, v) }""",
        w=random.standard_normal((16, 3, 3, 3)).astype(np.float32),
        v=random.standard_normal((16, 16, 1, 1)).astype(np.float32),
        five=np.int64([1, 2, 8, 16, 16]),
        four=np.int64([1, 16, 16, 16]),
    )
    order = np.arange(16).reshape(2, 8).T.reshape(-1).tolist()
    (tmp_path / "rule.py").write_text(f"""
NAME, TITLE = "shuffle-by-gather", "the shuffle as one Gather"


def pattern(op, x, five, four):
    return op.Reshape(op.Transpose(op.Reshape(x, five), perm=[0, 2, 1, 3, 4]), four)


def replacement(op, x, five, four):
    return op.Gather(x, op.Constant(value_ints={order}), axis=1)
""")
    code, output, error = command(source, "-o", tmp_path / "out.onnx", "--rules", tmp_path / "rule.py")
    assert code == 0, error
    assert "shuffle-by-gather  rolled back: it changes the results (in OpenVINO, CPU: " in output
    assert "dB against the source" in error
    assert "They agree with the source in OpenVINO, CPU too." in output
    assert "Gather" not in {node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node}


pytest.importorskip("onnxruntime", reason="verification runs on ONNX Runtime")

RANDOM = np.random.default_rng(5)
HEADER = '<ir_version: 8, opset_import: ["" : 17]> '
NCHW = """g (float[n,3,8,6] x) => (float[n,4] y) {
    c = Conv(x, w) r = Relu(c) p = GlobalAveragePool(r) y = Flatten(p) }"""
NHWC = """g (float[n,8,6,3] x) => (float[n,8,6,4] y) {
    t = Transpose <perm = [0, 3, 1, 2]> (x) c = Conv <pads = [1, 1, 1, 1]> (t, w) r = Relu(c)
    y = Transpose <perm = [0, 2, 3, 1]> (r) }"""


@pytest.fixture
def run(tmp_path):
    """Simplifies a graph in this process: exit code, the result of --json or standard error, the model written."""
    application = typer.Typer()
    application.command()(simplify)

    def call(text, sample, *options):
        proto = onnx.parser.parse_model(HEADER + text)
        weight = RANDOM.standard_normal((4, 3, 3, 3)).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
        onnx.save(proto, tmp_path / "model.onnx")
        np.savez(tmp_path / "data.npz", x=RANDOM.standard_normal((2, *sample)).astype(np.float32))
        arguments = ["model.onnx", "-o", "out.onnx", "--data", "data.npz"]
        arguments = [str(tmp_path / each) if "." in each else each for each in arguments]
        found = CliRunner().invoke(application, [*arguments, "--json", *options], catch_exceptions=False)
        if found.exit_code:
            return found.exit_code, found.stdout + found.stderr, None
        return 0, json.loads(found.stdout.strip().splitlines()[-1])["data"], onnx.load(tmp_path / "out.onnx")

    return call


def dims(value):
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


@pytest.mark.parametrize(("text", "sample", "layout", "taken", "given", "left"), [
    (NCHW, (1, 3, 8, 6), "channels-last", ["n", 8, 6, 3], ["n", 4],
     ["Transpose", "Conv", "Relu", "GlobalAveragePool", "Flatten"]),
    (NHWC, (1, 8, 6, 3), "channels-first", ["n", 3, 8, 6], ["n", 4, 8, 6], ["Conv", "Relu"]),
])  # fmt: skip
def test_the_order_changes_and_the_results_do_not(run, text, sample, layout, taken, given, left):
    code, result, model = run(text, sample, "--layout", layout, "--bisect")
    assert (code, result["snr_db"], result["samples"]) == (0, 200.0, 2)
    assert (dims(model.graph.input[0]), dims(model.graph.output[0])) == (taken, given)
    assert [node.op_type for node in model.graph.node] == left
    (turned,) = (each for each in result["ledger"] if "picture-order" in each.values())
    assert turned["applied"][0]["nodes"] == ["x"]
    assert not [each for each in result["ledger"] if each.get("rolled_back")]


def test_with_a_fixed_shape_in_the_order_of_the_source(run):
    code, result, model = run(NCHW, (1, 3, 8, 6), "--layout", "channels-last", "--shape", "x=1x3x8x6")
    assert (code, result["snr_db"]) == (0, 200.0)
    assert dims(model.graph.input[0]) == [1, 8, 6, 3]
    assert not [each for each in result["ledger"] if "fix-shapes" in each.values() and each.get("refused")]


def test_an_unknown_layout_is_a_wrong_call(run):
    code, said, _ = run(NCHW, (1, 3, 8, 6), "--layout", "nhwc")
    assert code == 2
    assert "no layout 'nhwc'" in said


def test_the_line_that_measures_another_layout_leaves_the_source_out(edgeopt_here, conv_model):
    """The source takes other inputs, so that `bench` would refuse it."""
    code, output, errors = edgeopt_here("simplify", conv_model, "-o", "cl.onnx", "--layout", "channels-last")
    assert code == 0, errors
    line = output.splitlines()[-1].split()
    assert line == ["edgeopt", "bench", "cl.onnx"]
    code, _, errors = edgeopt_here(*line[1:], "--rounds", "6")
    assert code == 0, errors


@pytest.mark.usefixtures("runtime")
def test_outputs_without_numbers_are_not_called_equal(command, write_model, tmp_path):
    text = "g (float[1,4] x) => (float[1,4] y) { a = Abs(x)  b = Neg(a)  c = Sub(b, w)  y = Sqrt(c) }"
    code, output, _ = command(write_model(text, w=np.ones(4, np.float32)), "-o", tmp_path / "out.onnx")
    assert code == 0
    assert "All outputs are NaN, infinite, empty or zero on 4 generated samples" in output
    assert "qual in every value" not in output
