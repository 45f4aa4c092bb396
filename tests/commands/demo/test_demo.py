import pytest

import edgeopt
from edgeopt.bundle.runtime.check import check
from edgeopt.commands import demo
from edgeopt.events import ignore


@pytest.mark.slow
def test_the_whole_story(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "_TIME_LIMIT_S", 5.0)
    out = tmp_path / "demo.edgeopt"
    told = demo.run(out, ignore)
    gains = {gain.what: gain for gain in told.gains}
    assert {"latency", "accuracy"} <= set(gains)
    assert gains["latency"].before.endswith("ms")
    assert all(gain.why for gain in told.gains)
    assert told.outcome.proof.accuracy_db >= 30
    assert not check(out, ignore).stale
    with edgeopt.load(out) as session:
        assert [i.name for i in session.inputs] == [i.name for i in told.outcome.inputs]
