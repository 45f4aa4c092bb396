import numpy as np
import onnx
import onnx.parser
import pytest

from edgeopt.commands.simplify.request import Request
from edgeopt.commands.simplify.simplify import simplify
from edgeopt.graph.model import load
from edgeopt.measure.exactness.inputs import padded_cases
from tests.masked import HEARD, feeds

pytest.importorskip("onnxruntime", reason="models are run in ONNX Runtime")

# It adds up all rows: what fills a sentence up changes the answer.
UNHEARD = HEARD.replace("seen = Mul (rows, wide)", "none = Sub (wide, wide)  seen = Add (rows, none)")
# It divides by the length, padded or not.
COUNTED = HEARD.replace("y = ReduceSum <keepdims = 0> (seen, one)", "y = ReduceMean <keepdims = 0> (seen, one)")


@pytest.fixture
def write_onnx(tmp_path):
    def write(body):
        onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {body}'), tmp_path / "m.onnx")
        return tmp_path / "m.onnx"

    return write


def test_they_have_lengths_fillings_gaps_and_rows_of_all_kinds(write_onnx):
    model = load(write_onnx(HEARD))
    cases = padded_cases(model.ir, feeds(12))
    alone = [case for case in cases if len(case["ids"]) == 1]
    kept = {int(case["attention_mask"].sum()) for case in alone}
    assert {1, 16, 17, 20, 39, 40} <= kept
    assert any(np.diff(case["attention_mask"][0]).max() > 0 for case in alone), "no gap"
    fillings = {case["ids"].tobytes() for case in alone if case["attention_mask"].sum() == 16}
    assert len(fillings) == 2
    beside = [case for case in cases if len(case["ids"]) == 3]
    assert beside
    assert not beside[0]["attention_mask"][2].any()


def test_a_model_of_one_row_gets_one_row(write_onnx):
    fixed = HEARD.replace("[b,n]", "[1,n]").replace("[b,2]", "[1,2]")
    assert all(len(case["ids"]) == 1 for case in padded_cases(load(write_onnx(fixed)).ir, feeds(12)))


def test_without_a_mask_there_are_none(write_onnx):
    assert padded_cases(load(write_onnx(HEARD)).ir, {"x": np.ones((1, 4), np.float32)}) == []


@pytest.mark.parametrize("body", [HEARD, UNHEARD, COUNTED], ids=["heard", "unheard", "counted"])
def test_padding_is_skipped_only_where_it_is_proved_not_to_matter(write_onnx, tmp_path, body):
    # As data of this kind shows nothing: every sample fills all places.
    np.savez(tmp_path / "full.npz", **{k: np.concatenate([v] * 3)[:, None] for k, v in feeds(40).items()})
    order = Request(write_onnx(body), tmp_path / "out.onnx", only=("skip-padding",), data=tmp_path / "full.npz")
    (entry,) = [e for e in simplify(order).ledger if e.applied or e.rolled_back]
    assert bool(entry.rolled_back) == (body is not HEARD)
    if entry.rolled_back:
        assert "it changes the results" in entry.rolled_back
