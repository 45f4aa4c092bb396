import numpy as np

from edgeopt.measure.messages import Calls


def test_a_trial_runs_the_samples_of_the_ground_as_it_is_called(track):
    contender = track.ground.enter("two", "null", track.path, calls=Calls(2, 4), timeout_s=20.0)
    try:
        assert (contender.concurrency, contender.batch) == (2, 4)
        together = track.ground.outputs(contender, range(1, 5))
        alone = track.ground.outputs(contender, range(1, 5), 1)
    finally:
        contender.close()
    assert [sorted(answer) for answer in together] == [["y"]] * 4
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one["y"], other["y"])
