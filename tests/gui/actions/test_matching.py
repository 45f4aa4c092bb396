import pytest

from edgeopt_gui.actions.matching import best, score

TITLES = (
    "Open a model…",
    "Open a bundle…",
    "Start the search",
    "Search the nodes",
    "Save the bundle as…",
    "Settings…",
    "Cancel the search",
    "Reset the layout of the window",
)


def found(typed):
    return best(typed, TITLES, lambda title: title)


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("open m", "Open a model…"),
        ("ob", "Open a bundle…"),
        ("sts", "Start the search"),
        ("search", "Search the nodes"),
        ("canc", "Cancel the search"),
        ("SETT", "Settings…"),
        ("layout", "Reset the layout of the window"),
    ],
)
def test_the_best_fit_stands_first(typed, first):
    assert found(typed)[0] == first


def test_nothing_typed_keeps_the_order_and_nonsense_finds_nothing():
    assert found("") == list(TITLES)
    assert found("qqq") == []


def test_letters_must_come_in_their_order():
    assert score("abc", "a b c") is not None
    assert score("cba", "a b c") is None


def test_a_head_of_a_word_is_not_waited_for_in_vain():
    """The d in "bundle" would do, and the word that begins with one has no l after it."""
    assert score("bdl", "bundle done") is not None
