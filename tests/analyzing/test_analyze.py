import pytest

from edgeopt.analyzing.analyze import analyze
from edgeopt.errors import BundleError
from edgeopt.events import Progress


def test_a_model_has_no_deployment(conv_model):
    found = analyze(conv_model)
    assert (found.kind, found.deployment) == ("model", None)


def test_a_bundle_is_its_model_and_what_it_says_of_itself(conv_bundle, conv_model):
    said = []
    found, model = analyze(conv_bundle, said.append), analyze(conv_model)
    assert (found.kind, found.name, found.path) == ("bundle", "conv.edgeopt", str(conv_bundle))
    assert (found.nodes, found.operators, found.digest) == (model.nodes, model.operators, model.digest)
    deployment = found.deployment
    assert (deployment.backend, deployment.options) == ("onnxruntime-cpu", {"threads": 1})
    assert (deployment.speedup, deployment.accuracy_db, deployment.verdict) == (2.0, 200.0, "faster")
    assert [type(event) for event in said] == [Progress, Progress]


def test_a_bundle_without_evidence(bundle, change_deployment):
    change_deployment(bundle, evidence=None)
    assert analyze(bundle).deployment.speedup is None


def test_a_bundle_with_an_openvino_model(bundle, change_deployment, conv_model):
    openvino = pytest.importorskip("openvino")
    from edgeopt.bundle.deployment import Run

    openvino.save_model(openvino.convert_model(conv_model), bundle / "model" / "conv.xml")
    change_deployment(bundle, run=Run("openvino-cpu", "model/conv.xml"))
    found = analyze(bundle)
    assert (found.kind, found.format) == ("bundle", "OpenVINO IR")
    assert found.nodes_count > 3


def test_a_damaged_bundle_is_refused(bundle):
    (bundle / "ledger.json").write_text("")
    with pytest.raises(BundleError, match=r"ledger\.json"):
        analyze(bundle)


def test_a_bundle_that_is_not_there(tmp_path):
    with pytest.raises(BundleError, match="no bundle"):
        analyze(tmp_path / "nowhere.edgeopt")
