"""The jobs of docs/ci.md, run as they stand there on the built-in sample."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "edgeopt" / "data" / "demo" / "digits_cnn"
BLOCKS = re.findall(
    r"^```(?:yaml|sh)\n(.*?)^```", (ROOT / "docs" / "ci.md").read_text(), flags=re.MULTILINE | re.DOTALL
)
GITHUB, GITLAB = (yaml.safe_load(block) for block in BLOCKS[:2])
LOOP = BLOCKS[2]

# What each step runs, by its command.
STEPS = {
    step["run"].split()[1]: step["run"]
    for step in GITHUB["jobs"]["model"]["steps"]
    if step.get("run", "").startswith("edgeopt ")
}


@pytest.fixture
def job(tmp_path, digits_bundle):
    """Runs lines of a job in a checkout whose bundle is the one of the main branch."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    shutil.copy(f"{SAMPLE}.onnx", checkout / "model.onnx")
    shutil.copy(f"{SAMPLE}.npz", checkout / "data.npz")
    shutil.copytree(digits_bundle, checkout / "model.edgeopt")
    shutil.copytree(digits_bundle, checkout / "deployed" / "model.edgeopt")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "edgeopt").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m edgeopt "$@"\n')
    (programs / "edgeopt").chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GITHUB_STEP_SUMMARY": str(checkout / "summary.md"),
    }

    def run(*lines):
        done = subprocess.run(
            ["bash", "-e", "-c", "\n".join(lines)],
            cwd=checkout,
            env=environment,
            capture_output=True,
            text=True,
            timeout=160,
            check=False,
        )
        return done.returncode, "".join(page.read_text() for page in sorted(checkout.glob("*.md"))), done.stderr

    run.checkout = checkout
    return run


def test_both_jobs_run_the_same_commands_and_the_later_steps_also_after_a_failure():
    commands = {re.split(r" >> ", line.strip())[0] for line in STEPS.values()}
    assert [command.split()[1] for command in STEPS.values()] == ["bench", "compare", "verify"]
    assert {
        line.partition(" > ")[0] for line in GITLAB["model"]["script"] if line.startswith("edgeopt ")
    } == commands
    later = [step for step in GITHUB["jobs"]["model"]["steps"] if step.get("run", "").startswith("edgeopt ")][1:]
    assert {step["if"] for step in later} == {"${{ !cancelled() }}"}


@pytest.mark.slow
def test_an_unchanged_bundle_is_exact_and_fresh(job):
    code, page, err = job(STEPS["compare"], STEPS["verify"])
    assert code == 0, err
    assert "# model.onnx and model.edgeopt" in page
    assert "Valid" in page


@pytest.mark.slow
def test_a_bundle_of_another_device_is_stale(job, change_deployment):
    change_deployment(job.checkout / "model.edgeopt", device={"cpu": "another"})
    code, page, _ = job(STEPS["verify"])
    assert code == 6
    assert "Stale" in page


@pytest.mark.slow
def test_a_bundle_whose_source_model_changed_is_stale(job, conv_model):
    shutil.copy(conv_model, job.checkout / "model.onnx")
    code, page, _ = job(STEPS["verify"])
    assert code == 6
    assert "Stale" in page


@pytest.mark.slow
def test_a_bundle_that_answers_otherwise_is_less_accurate(job):
    import onnx
    from onnx import numpy_helper

    model = onnx.load(job.checkout / "model.onnx")
    weights = max(model.graph.initializer, key=lambda each: len(each.raw_data))
    weights.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weights) * 1.5, weights.name))
    onnx.save(model, job.checkout / "model.onnx")
    code, page, _ = job(STEPS["compare"])
    assert code == 6
    assert page


@pytest.mark.slow
def test_a_slower_bundle_breaks_the_limit(job, null_model):
    np.savez(job.checkout / "data.npz", x=np.ones((4, 8), np.float32))
    line = STEPS["bench"].replace("deployed/model.edgeopt", f"'{null_model('fast', latency_ms=1)}'")
    code, page, err = job(line.replace("model.edgeopt", f"'{null_model('slow', latency_ms=4)}'"))
    assert code == 4, err
    assert re.search(r"slow\.null\.json is \d\.\dx slower than .*fast\.null\.json; 5 % allowed", page)


@pytest.mark.slow
def test_the_loop_fails_for_one_slower_model_and_still_measures_the_others(job, null_model):
    for folder, latencies in (("models", (4, 1)), ("deployed/models", (1, 4))):
        (job.checkout / folder).mkdir()
        for name, latency_ms in zip(("one", "two"), latencies, strict=True):
            null_model(name, latency_ms=latency_ms).rename(job.checkout / folder / f"{name}.null.json")
            np.savez(job.checkout / folder / f"{name}.npz", x=np.ones((4, 8), np.float32))
    code, page, err = job(LOOP.replace(".onnx", ".null.json"))
    assert code == 4, err
    assert page.count("## edgeopt bench: ") == 2
    assert page.count("| broken |") == page.count("| held |") == 1


def test_the_job_of_gitlab_fails_where_one_step_does(job):
    (job.checkout / "model.edgeopt" / "deployment.toml").write_text("damaged")
    lines = [line for line in GITLAB["model"]["script"] if " bench " not in line]
    code, _, _ = job("touch speed.md", *lines)
    assert code == 3


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_both_jobs_pass_for_an_unchanged_model(job):
    assert job(*STEPS.values())[0] == 0
    summary = (job.checkout / "summary.md").read_text()
    pages = ("## edgeopt bench", "# model.onnx and model.edgeopt", "## edgeopt verify")
    assert [page for page in pages if page not in summary] == []
    assert job(*GITLAB["model"]["script"])[0] == 0
