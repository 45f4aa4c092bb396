import msgspec
import pytest

from edgeopt.commands.analyze.analyze import proved_outputs
from edgeopt.graph.accuracy import OutputAccuracy
from edgeopt.graph.analysis import ProvedOutput


def test_the_record_of_a_bundle_tells_each_output(tmp_path):
    told = OutputAccuracy("a", 40.5, 0.1, 0.1, 0.9, (), (), agreement=0.5)
    proof = {"verdict": "faster", "outputs": [told, {"name": "b", "snr_db": None, "counted": True}]}
    (tmp_path / "evidence.json").write_bytes(msgspec.json.encode({"candidates": [], "proof": proof}))
    assert proved_outputs(tmp_path) == (ProvedOutput("a", 40.5, 0.5), ProvedOutput("b", None, counted=True))


@pytest.mark.parametrize("written", [None, b"", b"{", b"[]", b'{"proof": null}', b'{"proof": {"outputs": [1]}}'])
def test_a_record_that_tells_nothing_or_is_damaged_gives_no_outputs(tmp_path, written):
    if written is not None:
        (tmp_path / "evidence.json").write_bytes(written)
    assert proved_outputs(tmp_path) == ()
