import msgspec
import pytest

from edgeopt.graph.analysis import NodeRow, Tensor
from edgeopt_gui.pages.model.node_feed import AT_ONCE, NodeFeed


def plain(count):
    rows = [NodeRow(k, f"n{k}", "Relu", "", (Tensor("x"),), (Tensor("y"),), 0, 0) for k in range(count)]
    return msgspec.to_builtins(rows)


@pytest.fixture
def feed(qapp):
    return NodeFeed()


@pytest.mark.parametrize("count", [0, 1, AT_ONCE, 2 * AT_ONCE + 1])
def test_all_nodes_arrive_in_their_order(qtbot, feed, count):
    with qtbot.waitSignal(feed.ready) as ready:
        feed.start(plain(count))
    assert [node.position for node in ready.args[0]] == list(range(count))


def test_another_model_takes_the_place_of_the_one_under_way(qtbot, feed):
    told = []
    feed.ready.connect(lambda rows: told.append(len(rows)))
    feed.start(plain(5 * AT_ONCE))
    feed.start(plain(3))
    qtbot.waitUntil(lambda: told == [3])


def test_stopped_is_stopped(qtbot, feed):
    feed.start(plain(3))
    feed.stop()
    with qtbot.assertNotEmitted(feed.ready, wait=50):
        pass
