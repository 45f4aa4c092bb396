from edgeopt.search.delivering.report import Figures, front

MIB = 2**20


def lost(time, accuracy_db=90.0, memory=100, size=10):
    return Figures("lost", time, accuracy_db, memory * MIB, size * MIB)


def test_on_the_front_are_those_that_nobody_beats_in_everything():
    field = [
        lost(2.0),
        lost(1.0, accuracy_db=40.0),
        lost(3.0),  # slower than the first and no better
        lost(3.0, memory=50),
        lost(3.0, size=3),
        lost(2.5, accuracy_db=60.0, memory=120),
    ]
    assert front(field) == [1, 0, 3, 4]


def test_what_differs_by_less_than_counts_is_alike():
    field = [lost(1.0), lost(1.01, accuracy_db=200.0, memory=98), lost(1.005, accuracy_db=80.2, size=4)]
    # The last is as fast, and clearly smaller: nothing speaks for the others.
    assert front(field) == [2]


def test_who_may_not_be_delivered_or_was_not_measured_is_not_on_it():
    field = [lost(2.0), Figures("below the floor", 1.0, 12.0), Figures("failed", None, None), lost(None)]
    assert front(field) == [0]


def test_the_winner_is_on_it_because_it_was_proved():
    assert front([lost(1.0), Figures("winner", 1.2, 90.0, 100 * MIB, 10 * MIB)]) == [0, 1]


def test_a_figure_that_is_not_known_is_no_reason_to_choose_it():
    assert front([lost(1.0), Figures("lost", 1.5, 90.0)]) == [0]
    assert front([Figures("lost", 1.0, 50.0), Figures("lost", 1.5, 90.0)]) == [0, 1]
