import numpy as np

from edgeopt.quant.calibrate import SampleReader


def everything(reader):
    found = []
    while (feeds := reader.get_next()) is not None:
        found.append(feeds["x"])
    return found


def test_every_sample_once_with_its_batch_axis(conv_samples):
    found = everything(SampleReader(conv_samples))
    assert [f.shape for f in found] == [(1, 3, 16, 16)] * 24
    assert np.array_equal(np.concatenate(found), conv_samples.arrays["x"])


def test_it_can_be_read_again(conv_samples):
    reader = SampleReader(conv_samples[range(3)])
    assert len(everything(reader)) == 3
    assert reader.get_next() is None
    reader.rewind()
    assert len(everything(reader)) == 3
