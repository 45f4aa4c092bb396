import pytest

import edgeopt
from edgeopt.bundle.runtime.check import check
from edgeopt.commands import demo
from edgeopt.commands.demo import DemoRequest
from edgeopt.events import ignore


@pytest.mark.slow
def test_the_whole_story(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "_TIME_LIMIT_S", 5.0)
    out = tmp_path / "demo.edgeopt"
    told = demo.demo(DemoRequest(out), ignore)
    changes = {gain.what: gain for gain in (*told.gains, *told.losses)}
    assert "accuracy" not in changes
    assert told.outcome.verdict != "faster" or changes["latency"].before.endswith("ms")
    assert "<!doctype html>" in (tmp_path / "demo-report.html").read_text()
    assert told.report == str(tmp_path / "demo-report.html")
    assert all(gain.why for gain in changes.values())
    assert told.outcome.proof.accuracy_db >= 30
    assert not check(out, ignore).stale
    with edgeopt.load(out) as session:
        assert [i.name for i in session.inputs] == [i.name for i in told.outcome.inputs]
