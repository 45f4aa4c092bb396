"""The examples of docs/python.md, as they stand."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from edgeopt.data import demo as samples

PAGE = Path(__file__).parents[1] / "docs" / "python.md"


@pytest.mark.slow
def test_the_examples_run_in_their_order(tmp_path, monkeypatch, capsys):
    shutil.copy(samples.MODEL, tmp_path / "model.onnx")
    shutil.copy(samples.DATA, tmp_path / "data.npz")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 7
    here: dict = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), here)  # noqa: S102 - the page's own code
    assert here["device"].limits.usable_cores >= 1
    assert here["analysis"].work.macs > 0
    outcome, report = here["outcome"], here["report"]
    assert outcome.target == "cpu-avx2"
    assert Path(outcome.bundle) == tmp_path / "model.edgeopt"
    assert [side.name for side in report.sides] == ["model.edgeopt", "model.onnx"]
    assert all(side.figures.throughput_per_s > 0 for side in report.sides)
    (logits,) = here["outputs"].values()
    assert np.isfinite(logits).all()
    assert "'no-such.edgeopt'. Check the path. 3" in capsys.readouterr().out
