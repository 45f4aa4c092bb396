from edgeopt_agent.deployments.states import FINAL, FIRST, ROWS, TABLE, Event, State
from edgeopt_agent.deployments.steps import STEPS
from edgeopt_agent.settings import Settings


def ways(state, walked=()):
    """Every path from a state to an end; a loop would come by the same state twice."""
    assert state not in walked, f"a loop: {walked} and {state} again"
    path = (*walked, state)
    if state in FINAL:
        return [path]
    return [way for following in {*ROWS[state].exits.values()} for way in ways(following, path)]


def test_every_state_stands_in_the_table_once():
    assert sorted(row.state for row in TABLE) == sorted(State)


def test_every_way_ends_and_none_comes_back():
    found = ways(State.ACCEPTED) + [way for first in FIRST.values() for way in ways(first)]
    assert {way[-1] for way in found} == {State.COMMITTED, State.FAILED, State.ROLLED_BACK, State.DEGRADED}


def test_every_state_that_does_something_has_a_step_a_limit_a_failure_exit_and_an_undo():
    for row in TABLE:
        if row.state in FINAL:
            assert row.state not in STEPS
            continue
        assert row.state in STEPS
        assert isinstance(getattr(Settings(data_dir="."), row.limit), float)
        assert row.exits[Event.FAILURE] is not row.exits[Event.DONE]
        assert row.undo


def test_until_the_switch_a_failure_changes_nothing_and_after_it_leads_back():
    order = [row.state for row in TABLE]
    for row in TABLE:
        if row.state in FINAL or row.state is State.ROLLING_BACK:
            continue
        before = order.index(row.state) < order.index(State.SWITCHING)
        assert row.exits[Event.FAILURE] is (State.FAILED if before else State.ROLLING_BACK)


def test_only_downloads_and_what_has_touched_the_service_go_on_after_a_restart_and_not_for_ever():
    assert {row.state: row.resumes for row in TABLE if row.resumes} == {
        State.FETCHING: 20,
        State.SWITCHING: 1,
        State.SOAKING: 1,
        State.ROLLING_BACK: 5,
    }
