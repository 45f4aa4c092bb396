import pytest

from edgeopt.commands.analyze.messages import Node, Rewrite, Rewritten
from edgeopt.commands.analyze.opportunities import find_rewrites


@pytest.fixture
def rows(node):
    return (
        node("Conv", ["x 4 8"], ["c 4 8"], "convolution", operations=1_600_000, moved=1000, macs=800_000),
        node("BatchNormalization", ["c 4 8"], ["b 4 8"], "normalization", operations=64, moved=1_000_000),
    )


def rewrite(name, kind, gone=(), new=(), whats=("did something",)):
    return Rewrite(name, "a title", kind, True, whats, tuple(n.name for n in gone), tuple(gone), tuple(new))


def test_a_fusion_is_an_opportunity_with_its_gain_and_the_command(view, rows):
    gone = [Node("n_b", "BatchNormalization", ("c",), ("b",))]
    seen = view(*rows, rewritten=Rewritten((rewrite("batchnorm-into-conv", "fusion", gone),)))
    (found,) = find_rewrites(seen)
    assert found.kind == "unfused patterns"
    assert found.title == "A title"
    assert found.gain_share == pytest.approx(0.5, abs=0.01)
    assert "1 node less" in found.basis
    assert found.nodes == ("n_b",)
    assert found.command.startswith("edgeopt simplify ")
    assert "did something" in found.reason


def test_what_changes_no_nodes_has_no_estimate(view, rows):
    (found,) = find_rewrites(view(*rows, rewritten=Rewritten((rewrite("weights-out-of-inputs", "cleaning"),))))
    assert (found.kind, found.gain_share) == ("weights as inputs", None)
    assert "no estimate" in found.basis


@pytest.mark.parametrize("name", ["raise-opset", "strip-metadata", "deduplicate-weights"])
def test_passes_that_gain_nothing_by_themselves_are_no_opportunities(view, rows, name):
    assert list(find_rewrites(view(*rows, rewritten=Rewritten((rewrite(name, "cleaning"),))))) == []


@pytest.mark.parametrize(
    ("name", "folder", "kind"),
    [
        ("identities", "cleaning", "redundant nodes"),
        ("transposes", "layout", "redundant nodes"),
        ("channels-last", "layout", "layout"),
        ("constant-chains", "algebra", "cheaper forms"),
        ("fold-constants", "cleaning", "foldable constants"),
    ],
)
def test_the_kind_follows_from_the_pass(view, rows, name, folder, kind):
    (found,) = find_rewrites(view(*rows, rewritten=Rewritten((rewrite(name, folder),))))
    assert found.kind == kind


def test_nothing_is_known_where_the_passes_were_not_asked(view, rows):
    assert list(find_rewrites(view(*rows))) == []
