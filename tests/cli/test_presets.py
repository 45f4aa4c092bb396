import onnx

from edgeopt.cli.main import run
from tests.families.recurrent import gru_stream
from tests.families.transformers import bert


def test_presets_are_listed_with_what_they_fit_and_set(capfd):
    assert run(["presets"]) == 0
    said = capfd.readouterr().out
    for name in ("sentence-encoder", "vision-transformer", "image-classifier", "segmentation"):
        assert name in said


def test_chosen_preset_is_told_with_its_reason(tmp_path, capfd):
    onnx.save(bert(layers=3), tmp_path / "bert.onnx")
    assert run(["presets", str(tmp_path / "bert.onnx")]) == 0
    said = " ".join(capfd.readouterr().out.split())
    assert (
        "bert.onnx: Preset sentence-encoder: 3 attention layers, no convolution, no recurrent layer; "
        "generated inputs have sequence=64." in said
    )


def test_model_of_no_family_is_told(tmp_path, capfd):
    onnx.save(gru_stream(), tmp_path / "gru.onnx")
    assert run(["presets", str(tmp_path / "gru.onnx")]) == 0
    assert "No preset fits gru.onnx." in capfd.readouterr().out


def test_unknown_preset_is_told_before_the_search(relu_model, tmp_path, capfd):
    assert run(["optimize", str(relu_model), "-o", str(tmp_path / "out"), "--preset", "segmentasion"]) == 2
    said = capfd.readouterr().err
    assert "There is no preset 'segmentasion'." in said
    assert "Did you mean 'segmentation'?" in said
    assert not (tmp_path / "out").exists()
