from contextlib import closing

import pytest

from edgeopt.errors import EdgeoptError
from edgeopt.measure.host import LocalHost
from edgeopt.search.making.variants import Maker, inspect
from edgeopt.search.prepare import running_today
from edgeopt.search.racing.ground import Ground
from tests.conftest import write_onnx


def test_what_cannot_run_or_is_of_another_model_is_refused(conv_bundle, tmp_path):
    model = write_onnx(tmp_path / "m.onnx", [("Relu", ["z"], ["y"], {})], {}, {"z": [1, 4]}, {"y": [1, 4]})
    other = write_onnx(tmp_path / "o.onnx", [("Relu", ["z"], ["p"], {})], {}, {"z": [1, 4]}, {"p": [1, 4]})
    large = write_onnx(tmp_path / "l.onnx", [("Relu", ["z"], ["y"], {})], {}, {"z": [1, 9]}, {"y": [1, 9]})
    profile = tmp_path / "today.toml"
    profile.write_text("")
    host, samples = LocalHost(tmp_path), tmp_path / "samples"
    with closing(Maker(LocalHost(tmp_path))) as maker:
        facts = inspect(maker, model, samples, 1)
        for given, said in (
            (conv_bundle, r"'conv\.edgeopt' takes x, but the model takes z"),
            (other, r"'o\.onnx' gives p, but the model gives y"),
            (large, r"The baseline 'l\.onnx' cannot run the samples: .*\[1, 9\]"),
            (profile, r"'today\.toml' is a deployment profile, which cannot run"),
            (tmp_path / "no.onnx", r"There is nothing at '.*no\.onnx'"),
        ):
            place = tmp_path / given.stem
            place.mkdir()
            ground = Ground(host, place, samples)
            with pytest.raises(EdgeoptError, match=said) as caught:
                running_today(given, model, facts, ground, maker)
            assert caught.value.exit_code in {2, 3}
