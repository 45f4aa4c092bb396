"""The template of a plug-in: as it lies there, and installed by pip into a folder outside the tree."""

import shutil
import subprocess
import sys
import tomllib

import numpy as np
import pytest

from edgeopt.backends.base import run_all
from edgeopt.commands.optimize import optimize
from edgeopt.graph.model import save
from edgeopt.graph.passes import PassContext
from edgeopt.plugins import installed_plugins, load_offer, offered
from tests.pages import ROOT

FOLDER = ROOT / "examples" / "plugin"
CHAIN = """g (float[1, 4096] x) => (float[1, 4096] y) {
    a = Relu(x) b = Add(a, one) c = Reciprocal(b) d = Reciprocal(c) e = Reciprocal(d) f = Reciprocal(e) y = Neg(f)
}"""


@pytest.fixture
def template(tmp_path, monkeypatch):
    """Installed by hand, as an editable install would: metadata in one folder, the package in another."""
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    metadata = tmp_path / "site" / "edgeopt_example.dist-info"
    metadata.mkdir(parents=True)
    about = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (metadata / "METADATA").write_text(about)
    groups = project["entry-points"].items()
    text = "\n".join(f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in each.items()) for group, each in groups)
    (metadata / "entry_points.txt").write_text(text)
    monkeypatch.syspath_prepend(str(metadata.parent))
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    sys.modules.pop("edgeopt_example", None)


def test_template_is_ready_and_its_pass_keeps_the_results(template, make_model, tmp_path):
    from edgeopt.backends import backend_named

    (plugin,) = installed_plugins()
    assert (plugin.name, plugin.state, plugin.problem) == ("edgeopt-example", "ready", "")
    (offer,) = offered("pass")
    assert offer.name == "edgeopt-example.skip-reciprocals"
    model = make_model(CHAIN, one=np.float32([1]))
    result = load_offer(offer).apply(model.ir, PassContext())
    assert sum(len(change.nodes) for change in result.applied) == 2
    assert [node.op_type for node in result.model.graph] == ["Relu", "Add", "Neg"]
    assert len(list(model.ir.graph)) == 7
    save(result.model, tmp_path / "after.onnx")
    feeds = [{"x": np.linspace(-3, 3, 4096, dtype=np.float32)[None]}]
    runtime = backend_named("onnxruntime-cpu")
    before, after = (run_all(path, feeds, runtime)[0]["y"] for path in (model.path, tmp_path / "after.onnx"))
    assert after == pytest.approx(before, rel=1e-6)


@pytest.mark.slow
@pytest.mark.processes
def test_template_installed_by_pip_is_used_by_a_search(write_model, tmp_path, monkeypatch, quick_profile):
    source, site = tmp_path / "plugin", tmp_path / "site"
    shutil.copytree(FOLDER, source)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    offline = ["--no-deps", "--no-build-isolation", "--target", str(site), str(source)]
    done = subprocess.run([*pip, *offline], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    monkeypatch.syspath_prepend(str(site))
    model = write_model(CHAIN, one=np.float32([1]))
    data = {"x": np.random.default_rng(0).standard_normal((16, 4096)).astype(np.float32)}
    outcome = optimize(model, tmp_path / "out.edgeopt", data=data, profile=quick_profile, time_limit_s=20.0)
    raced = [one for one in outcome.candidates if one.candidate.variant == "edgeopt-example.skip-reciprocals"]
    assert raced
    assert all(one.accuracy_db > 100 for one in raced)
