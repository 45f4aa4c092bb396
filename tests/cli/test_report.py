import json


def test_a_report_of_a_bundle(edgeopt_here, conv_bundle, tmp_path):
    code, out, _ = edgeopt_here("report", conv_bundle, "-o", "report.html", "--no-nodes")
    assert code == 0
    assert "Report: report.html" in out
    assert "Not known: candidates. The bundle holds no evidence.json." in out
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")


def test_for_programs(edgeopt_here, conv_bundle, tmp_path):
    code, out, _ = edgeopt_here("report", conv_bundle, "-o", "facts", "--to", "json", "--no-nodes", "--json")
    assert code == 0
    last = json.loads(out.splitlines()[-1])
    assert (last["event"], last["kind"], last["data"]["format"]) == ("result", "report", "json")
    assert json.loads((tmp_path / "facts").read_text())["deployment"]["name"] == "conv"


def test_what_cannot_be_reported_leaves_no_file(edgeopt_here, bundle, relu_model, tmp_path):
    assert edgeopt_here("report", bundle, "-o", "report.pdf")[0] == 2
    code, _, err = edgeopt_here("report", bundle, "-o", "report.html", "--no-nodes", "--model", relu_model)
    assert code == 3
    assert "not the model that the bundle was made from" in err
    (bundle / "deployment.toml").write_text("damaged")
    assert edgeopt_here("report", bundle, "-o", "report.html")[0] == 3
    assert not (tmp_path / "report.html").exists()
