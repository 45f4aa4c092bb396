import msgspec
import pytest

from edgeopt.bundle.deployment import FILE, Deployment, Run, SourceModel, to_toml
from edgeopt.errors import TrialError
from edgeopt.measure.contender import (
    Contender,
    Side,
    accept,
    ask,
    enter,
    enter_side,
    how_to_check,
    load_patience_s,
    save_outputs,
)
from edgeopt.measure.messages import Load, Loaded, Memory, Saved, Time, Timed
from edgeopt.measure.trial import read_outputs
from edgeopt.workers.host import LocalHost
from edgeopt.workers.protocol import Failed


class Says:
    """A child that needs no process, and answers the same line to everything."""

    def __init__(self, line):
        self.line, self.closed = line, False

    def send(self, line):
        """Hears nothing."""

    def receive(self, _timeout_s):
        return self.line

    def close(self):
        self.closed = True


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ({"crash": "load"}, "crashed: SIGSEGV"),
        ({"crash": "run"}, "crashed: SIGSEGV"),
        ({"hang": "load"}, "hung: no answer within 1 s"),
        ({"fail": "load"}, "failed: The null model fails while it should load, as planted."),
    ],
)
def test_who_cannot_load_does_not_enter(load_null, fault, sentence):
    with pytest.raises(TrialError) as caught:
        enter(LocalHost(), "bad", load_null(**fault), timeout_s=20 if "hang" not in fault else 1)
    assert caught.value.message.startswith(sentence)


def test_closing_a_contender_ends_its_process(contender, ends):
    one = contender("a")
    one.close()
    assert ends(one.child.pid)


def test_outputs_are_saved_where_asked(contender, tmp_path):
    save_outputs(contender("a"), 1, 2, str(tmp_path / "out.npz"), 20)
    assert len(read_outputs(tmp_path / "out.npz")) == 2


def test_outputs_that_cannot_be_saved_say_why(contender, tmp_path):
    with pytest.raises(TrialError, match=r"^failed: FileNotFoundError"):
        save_outputs(contender("a"), 0, 1, str(tmp_path / "none" / "out.npz"), 20)


@pytest.mark.parametrize("line", [b"I am fine", b'{"type": "dance"}', b'{"type": "timed"}', b""])
def test_nonsense_is_no_answer_and_ends_the_trial(line):
    child = Says(line)
    with pytest.raises(TrialError, match=r"^sent an invalid answer: .*; it was killed$"):
        ask(child, Time(1))
    assert child.closed


def test_an_answer_without_a_run_is_a_failure():
    one = Contender("a", Says(b""), Loaded((), (), 0, 0, Memory()))
    assert accept(one, Timed((), Memory())) is None
    assert one.failure == "failed: it answered with no run at all"


def test_an_answer_to_another_question_is_a_failure():
    one = Contender("a", Says(msgspec.json.encode(Saved("x"))), Loaded((), (), 0, 0, Memory()))
    assert accept(one, Saved("x")) is None
    assert one.failure == "failed: unexpected answer Saved"


def test_a_side_that_cannot_load_is_named_with_its_reason(load_null):
    with pytest.raises(TrialError, match=r"^'mine' crashed: SIGSEGV\.$") as caught:
        enter_side(LocalHost(), Side("mine", load_null(crash="load")))
    assert caught.value.hint


def test_the_code_and_the_hint_of_a_trial_are_kept(load_null):
    wrong = msgspec.structs.replace(load_null(), options={"no_such_option": 1})
    with pytest.raises(TrialError) as caught:
        enter_side(LocalHost(), Side("mine", wrong))
    assert (caught.value.code, caught.value.exit_code) == ("usage", 2)
    assert "edgeopt verify" not in caught.value.hint


def test_a_slice_that_fails_keeps_its_code_and_hint():
    one = Contender("a", Says(b""), Loaded((), (), 0, 0, Memory()))
    assert accept(one, Failed("No.", "Ask otherwise.", "usage")) is None
    assert (one.failure, one.error.code, one.error.hint) == ("failed: No.", "usage", "Ask otherwise.")


@pytest.mark.parametrize(
    ("backend", "size_mib", "seconds"),
    [
        ("onnxruntime-cpu", 1, 60),
        ("onnxruntime-cpu", 2000, 300),
        ("onnxruntime-cpu", 90_000, 900),
        ("onnxruntime-tensorrt", 1, 900),
        ("openvino-npu", 1, 900),
    ],
)
def test_loading_has_as_long_as_its_backend_and_size_may_take(tmp_path, backend, size_mib, seconds):
    (tmp_path / "m.onnx").write_bytes(b"")
    with (tmp_path / "m.onnx.data").open("wb") as weights:
        weights.truncate(size_mib << 20)
    assert load_patience_s(Load(backend, str(tmp_path / "m.onnx"), {}, "")) == seconds


def test_a_bundle_has_as_long_as_the_backend_in_it(tmp_path):
    assert load_patience_s(Load("bundle", str(tmp_path), {}, "")) == 60
    made = Deployment(
        "n", "now", "1", "t", "s", SourceModel("m", "0", 1), Run("onnxruntime-cuda", "m.onnx"), [], []
    )
    (tmp_path / FILE).write_text(to_toml(made))
    assert load_patience_s(Load("bundle", str(tmp_path), {}, "")) == 900


def test_what_is_no_file_has_the_usual_time():
    assert load_patience_s(Load("url", "http://127.0.0.1:1/v2/models/m", {}, "")) == 60


@pytest.mark.parametrize(
    ("backend", "path", "hint"),
    [
        ("bundle", "my models/a.edgeopt", "Check the bundle: edgeopt verify 'my models/a.edgeopt'"),
        ("onnxruntime-cpu", "a.onnx", "Check the model: edgeopt analyze a.onnx"),
        ("command", "python mine.py", "Check that it runs by itself."),
    ],
)
def test_hint_for_a_failed_side_fits_what_it_is(load_null, backend, path, hint):
    load = msgspec.structs.replace(load_null(), backend=backend, model_path=path)
    assert how_to_check(Side("mine", load)) == hint
