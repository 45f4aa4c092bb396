import pytest

from edgeopt.graph import passes
from edgeopt.graph.passes.places import imported_later


def test_an_entry_that_is_not_there_is_named():
    later = imported_later(passes.__name__, "PLANTED", ["cleaning.identities.NOBODY"])
    with pytest.raises(ImportError, match=r"names cleaning\.identities\.NOBODY, and there is none"):
        later("PLANTED")
    with pytest.raises(AttributeError, match="has no attribute 'OTHER'"):
        later("OTHER")


def test_what_was_asked_for_once_is_there(monkeypatch):
    monkeypatch.setattr(passes, "PLANTED", None, raising=False)  # taken away again afterwards
    found = imported_later(passes.__name__, "PLANTED", ["cleaning.identities.PASS"])("PLANTED")
    assert [each.name for each in found] == ["identities"]
    assert found is passes.PLANTED
