from edgeopt_agent.workers.shadow import EQUAL_DB, Shadow


def test_answers_that_differ_beside_large_values_are_not_called_equal():
    shadow = Shadow()
    shadow.outputs = {"same": (4.0, 0.0), "almost": (1e30, 1e-5), "silent": (0.0, 1.0)}
    found = shadow.agreement_db()
    assert found["same"] == EQUAL_DB
    assert 190 < found["almost"] < EQUAL_DB
    assert found["silent"] == -EQUAL_DB
