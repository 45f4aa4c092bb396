import pytest


@pytest.mark.parametrize(("options", "said"), [("", "batches: "), ("--workers 2 --at-once 3", "worker 1: ")])
def test_every_sample_is_answered(reader, conv_bundle, pictures, options, said):
    printed = reader.type("", f"python examples/batching.py '{conv_bundle}' data.npz {options}")
    assert said in printed
    assert f"{len(pictures)} answers in " in printed
