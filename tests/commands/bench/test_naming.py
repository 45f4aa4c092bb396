import re

import onnx
import pytest

from edgeopt.backends.intended import KEY, encoded
from edgeopt.commands.bench.naming import first_side, other_side, program, read_options, side_names
from edgeopt.errors import UsageError


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.onnx", "b.onnx", "odd@home.onnx"):
        (tmp_path / name).write_bytes(b"")
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "model.onnx").write_bytes(b"")


@pytest.mark.parametrize(
    ("text", "what", "backend", "options"),
    [
        ("a.onnx", "a.onnx", None, {}),
        ("a.onnx@openvino-cpu", "a.onnx", "openvino-cpu", {}),
        (
            "a.onnx@onnxruntime-cpu,threads=1,arena=off",
            "a.onnx",
            "onnxruntime-cpu",
            {"threads": 1, "arena": False},
        ),
        ("odd@home.onnx", "odd@home.onnx", None, {}),
        ("odd@home.onnx@null", "odd@home.onnx", "null", {}),
        (
            'a.onnx@openvino-cpu,shapes={"x":[1,3]},threads=2',
            "a.onnx",
            "openvino-cpu",
            {"shapes": {"x": [1, 3]}, "threads": 2},
        ),
    ],
)
def test_a_side_by_itself(text, what, backend, options):
    side = first_side(text)
    assert (side.kind, side.what, side.backend, side.options) == ("model", what, backend, options)


def test_the_backend_and_options_of_the_subject_may_stand_apart():
    side = first_side("a.onnx", "onnxruntime-cpu", read_options(["threads=1", "graph_level=none"]))
    assert (side.backend, side.options) == ("onnxruntime-cpu", {"threads": 1, "graph_level": "none"})


@pytest.mark.parametrize(
    ("text", "what", "backend", "options"),
    [
        ("b.onnx", "b.onnx", None, {}),
        ("openvino-cpu", "a.onnx", "openvino-cpu", {}),
        ("openvino-cpu,threads=1", "a.onnx", "openvino-cpu", {"threads": 1}),
        ("graph_level=none,threads=2", "a.onnx", "onnxruntime-cpu", {"graph_level": "none", "threads": 2}),
        ("b.onnx@openvino-cpu", "b.onnx", "openvino-cpu", {}),
    ],
)
def test_another_side_may_say_only_what_differs(text, what, backend, options):
    side = other_side(text, first_side("a.onnx@onnxruntime-cpu,arena=off"))
    assert (side.what, side.backend, side.options) == (what, backend, options)


def made_for(path, value):
    model = onnx.ModelProto(metadata_props=[onnx.StringStringEntryProto(key=KEY, value=value)])
    path.write_bytes(model.SerializeToString())


def test_a_file_runs_on_what_it_was_made_for_unless_another_is_asked_for(tmp_path):
    made_for(tmp_path / "a.onnx", encoded("openvino-cpu", {"precision": "f32"}))
    side = first_side("a.onnx")
    assert (side.backend, side.options, side.is_as_made) == ("openvino-cpu", {"precision": "f32"}, True)
    elsewhere = first_side("a.onnx@onnxruntime-cpu")
    assert (elsewhere.backend, elsewhere.options, elsewhere.is_as_made) == ("onnxruntime-cpu", {}, False)
    plain = other_side("onnxruntime-cpu", side)
    assert (plain.backend, plain.is_as_made) == ("onnxruntime-cpu", False)
    assert side_names([side, plain]) == ["a.onnx · openvino-cpu", "a.onnx · onnxruntime-cpu"]


def test_a_file_made_for_what_is_not_here_runs_in_the_default(tmp_path):
    made_for(tmp_path / "a.onnx", encoded("abacus", {}))
    side = first_side("a.onnx")
    assert (side.backend, side.is_as_made, side.made_for.backend) == (None, False, "abacus")


def test_an_address_is_a_served_model():
    side = first_side("http://127.0.0.1:8080/v2/models/digits")
    assert side.kind == "url"
    assert side_names([side]) == ["digits at 127.0.0.1:8080"]


@pytest.mark.parametrize(
    ("work", "says", "hint"),
    [
        (lambda: first_side("a.onnx@openvino-cup"), "no backend 'openvino-cup'", "'openvino-cpu'"),
        (lambda: other_side("openvino-cup", first_side("a.onnx")), "backend 'openvino-cup'", "'openvino-cpu'"),
        (lambda: first_side("a.onnx@null", "openvino-cpu"), "another backend than --backend", "one of them"),
        (lambda: first_side("a.onnx@null,threads"), "'threads' is not an option", "name=value"),
        (lambda: first_side("@null"), "is not a side", "FILE[@BACKEND"),
        (lambda: read_options(["threads=1", "threads=2"]), "given twice", "once"),
        (lambda: first_side("http://"), "not the address", "http://127.0.0.1"),
        (lambda: first_side("http://device/v2/models/x", "null"), "its own backend", "where you start it"),
        (lambda: program("  "), "empty", "python mine.py"),
    ],
)
def test_a_side_that_cannot_be_meant_is_said(work, says, hint):
    with pytest.raises(UsageError) as raised:
        work()
    assert says in raised.value.message
    assert hint in raised.value.hint


def test_a_bundle_refuses_options_with_the_reason(bundle):
    with pytest.raises(UsageError, match="it was proved with"):
        other_side("threads=1", first_side(str(bundle)))


def test_names_are_short_and_distinct():
    first = first_side("a.onnx")
    sides = [first, *(other_side(text, first) for text in ("openvino-cpu", "threads=1", "a.onnx", "a.onnx"))]
    assert side_names(sides) == [
        "a.onnx",
        "a.onnx · openvino-cpu",
        "a.onnx · threads=1",
        "a.onnx (2)",
        "a.onnx (3)",
    ]
    assert side_names([first_side("one/model.onnx"), first_side("two/model.onnx")]) == [
        "one/model.onnx",
        "two/model.onnx",
    ]
    (long,) = side_names([program("python " + "x" * 90)])
    assert re.fullmatch(r"python x+\.\.\.", long)
    assert len(long) == 40
