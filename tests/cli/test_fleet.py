"""`edgeopt fleet` as people and programs see it; the client itself is tested in tests/fleet."""

import io
import json
import signal

import msgspec
import numpy as np
import pytest
from rich.console import Console

from edgeopt import load
from edgeopt.bundle.manifest import write_manifest
from edgeopt.bundle.write import write_golden_runs
from edgeopt.cli import fleet_show
from edgeopt.cli.main import run
from edgeopt.fleet.client import Agent
from edgeopt.fleet.monitor import TrafficCounts, WatchedAgent
from edgeopt.fleet.records import (
    DeployPlan,
    FleetDeployment,
    ModelStatus,
    Previous,
    Release,
    Releases,
    Serving,
    Status,
)
from edgeopt.views.terminal import write
from tests.agent.http.text_requests import PORTS, text_bundle
from tests.bundle.runtime.decoder import HEADS, PAIRS, WIDTH


@pytest.fixture
def edgeopt(edgeopt_here):
    return edgeopt_here


def shown(show, record, width=140):
    out = io.StringIO()
    write(show(record), Console(file=out, width=width, highlight=False))
    return out.getvalue()


FAILED = FleetDeployment(
    4, "ROLLED_BACK", release="ab12", name="Digits", reason="p99 rose to 9 ms, against 2 ms before."
)


def test_status_says_what_serves_and_how_the_last_deployment_went():
    status = Status(
        "serving",
        Serving("cd34", "Digits", since_s=0.0),
        Previous("ef56", "Letters"),
        FAILED,
        reason="The journal was damaged.",
        uptime_s=7300,
    )
    text = shown(fleet_show.show_status, status)
    assert "The agent is serving, up for 2 h 1 min." in text
    assert "Serving: Digits (release cd34)" in text
    assert "A rollback returns to: Letters (release ef56)" in text
    assert "Last deployment: deployment 4 of Digits (release ab12), rolled back: p99 rose to 9 ms" in text
    assert "Trouble: The journal was damaged." in text
    assert "No key is trusted" in text


def test_status_names_the_plain_model_of_what_processes():
    serving = Serving("cd34", "Digits", processing=True)
    models = tuple(ModelStatus("serving", name, serving) for name in ("Digits", "Digits"))
    text = shown(fleet_show.show_status, Status("serving", serving, models=models))
    assert "With processing; the plain model is Digits.raw." in text
    assert "Model Digits: serving (release cd34) with processing (plain model: Digits.raw)" in text


def test_an_empty_agent_says_what_to_do():
    text = shown(fleet_show.show_status, Status("empty", trust="signed"))
    assert "deploy BUNDLE" in text
    assert "only bundles signed" in text
    assert "deploy BUNDLE" in shown(fleet_show.show_releases, Releases(()))


def test_releases_are_a_table_with_reasons():
    rows = (
        Release("ab12", "Digits", "serving", summary="2x faster", created="2026-01-02T03:04:05+00:00"),
        Release("cd34", "[red]x", "quarantined", summary="3x faster", reason="it answered NaN"),
    )
    text = shown(fleet_show.show_releases, Releases(rows))
    assert "2026-01-02 03:04" in text
    assert "2x faster" in text
    assert "[red]x" in text
    assert "it answered NaN" in text
    assert "3x faster" not in text


def test_the_outcome_keeps_names_as_they_are():
    text = shown(fleet_show.show_deployment, FleetDeployment(2, "COMMITTED", kind="rollback", name="YOLOX"))
    assert text == "Rollback 2 of YOLOX, committed\n"


def test_what_was_sent_is_summed_up():
    sent = TrafficCounts(1200, 2, "503 too much waits", 1.5, 3.0)
    text = shown(fleet_show.show_watched, WatchedAgent("http://device:8080", 61.0, sent))
    assert text == (
        "Watched http://device:8080 for 61 s.\n"
        "Sent 1,200 requests, 2 failed; median latency 1.50 ms.\n"
        "The first failure: 503 too much waits\n"
    )


@pytest.mark.parametrize("command", ["status", "releases", "deploy", "rollback", "watch"])
def test_every_command_has_help_with_examples(capsys, command):
    assert run(["fleet", command, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"  edgeopt fleet {command}" in out.split("Examples:\n")[1].split("\n\n")[0]
    assert {"--url", "--json"} <= set(out.split())
    assert max(len(line) for line in out.splitlines()) <= 100


def test_alone_it_lists_its_commands(capsys):
    assert run(["fleet"]) == 0
    listed = capsys.readouterr().out.split("Commands:\n")[1]
    assert [line.split()[0] for line in listed.splitlines() if line[2:3].strip()] == [
        *("pair", "status", "releases", "deploy", "rollback", "cancel", "remove", "watch"),
        *("discover", "devices", "rollout"),
    ]
    assert run(["fleet", "dance"]) == 2


@pytest.mark.parametrize(
    "arguments",
    [("status",), ("releases",), ("rollback",), ("watch", "--seconds", "1"), ("watch", "--send", "1")],
)
def test_no_agent_is_a_sentence(edgeopt, arguments):
    code, out, err = edgeopt("fleet", *arguments, "--url", "127.0.0.1:1", "--json")
    assert (code, err) == (5, "")
    error = json.loads(out.splitlines()[-1])
    assert (error["event"], error["code"]) == ("error", "unreachable")
    assert "No agent listens at http://127.0.0.1:1" in error["message"]


@pytest.fixture
def url(start, tmp_path):
    agent = start(
        *("run", "--json", "--port", "0", "--data-dir", tmp_path / "agent", "--log-level", "error"),
        *("--soak-seconds", "0", "--soak-requests", "0"),
        module="edgeopt_agent.main",
    )
    return json.loads(agent.first_line_with("live"))["message"]


def test_who_leaves_before_the_end_is_told_that_it_goes_on(start, url, conv_bundle):
    command = start("fleet", "deploy", conv_bundle, "--url", url, "--soak-seconds", "600", "--json")
    command.first_line_with("soaking")
    command.process.send_signal(signal.SIGINT)
    code, out, _ = command.finish()
    assert code == 130
    assert "Cancelled; the deployment continues" in json.loads(out.splitlines()[-1])["message"]
    assert Agent(url).status().deployment.state == "SOAKING"


def test_deploying_and_watching_a_real_agent(start, edgeopt, url, conv_bundle):
    code, out, err = edgeopt("fleet", "deploy", conv_bundle, "--url", url)
    assert code == 0
    assert out.startswith("Deployment 1 of conv (release ")
    assert "committed" in out
    assert [line.split("] ")[1] for line in err.splitlines()][-2:] == ["soaking", "committed"]
    code, out, _ = edgeopt("fleet", "status", "--url", url)
    assert code == 0
    assert "Serving: conv" in out
    code, out, err = edgeopt("fleet", "rollback", "--url", url)
    assert (code, out) == (4, "")
    assert "No release to roll back to" in err
    code, out, _ = edgeopt("fleet", "watch", "--url", url, "--send", "0", "--seconds", "2.5")
    assert code == 0
    assert "throughput" in out
    assert "requests failed 0" in out
    assert "0 failed; median latency" in out
    watching = start("fleet", "watch", "--url", url, "--json")
    watching.first_line_with("load_percent")
    watching.process.send_signal(signal.SIGINT)
    code, out, _ = watching.finish()
    assert code == 0, "Ctrl-C is how a watch is ended"
    assert json.loads(out.splitlines()[-1])["event"] == "result"


@pytest.mark.parametrize(
    ("has_template", "routes"),
    [(True, "/v1/completions and /v1/chat/completions"), (False, "/v1/completions")],
)
def test_deploying_a_language_model_names_the_model_of_its_requests(edgeopt, url, tmp_path, has_template, routes):
    pytest.importorskip("tokenizers")
    bundle = text_bundle(tmp_path).rename(tmp_path / "fast.edgeopt")
    if not has_template:
        (bundle / "text" / "chat_template.jinja").unlink()
        write_manifest(bundle)
    feeds = {name: np.zeros((1, HEADS, 0, WIDTH), np.float32) for name in PAIRS}
    feeds |= {name: np.array([[int(name == "attention_mask")]]) for name in PORTS if name != "logits"}
    with load(bundle) as session:
        outputs = session.run(feeds)
    write_golden_runs(bundle, [feeds], [outputs], [outputs])
    write_manifest(bundle)
    code, out, err = edgeopt("fleet", "deploy", bundle, "--url", url)
    assert code == 0, err
    assert f"Requests to {routes} name it as the model 'm'." in out.splitlines()


def test_a_dry_run_of_what_the_agent_fetches_is_refused(edgeopt_here):
    url = ("--url", "http://127.0.0.1:1")
    code, _, err = edgeopt_here(
        "fleet", "deploy", "--from", "https://x/y", "--digest", "sha256:" + "0" * 64, "--dry-run", *url
    )
    assert code == 2
    assert "download the bundle and give its path" in err


def test_a_dry_run_of_a_deployment_is_a_table_and_its_refusal():
    serving = Serving("cd34", "Digits", summary="2x faster")
    plan = DeployPlan(
        "http://device:8080", "Digits", "ab12", "3x faster", 1 << 20, "replace", serving, 3.0, 2.5, 3.5
    )
    text = shown(fleet_show.show_deployment, plan)
    assert "Digits (release cd34): 2x faster" in text
    assert "3.00x [2.50 3.50]" in text
    assert "Refused" not in text
    busy = msgspec.structs.replace(plan, problem="In progress.", hint="Cancel it: edgeopt fleet cancel")
    refused = shown(fleet_show.show_deployment, busy)
    assert "Refused: In progress. Cancel it: edgeopt fleet cancel --url http://device:8080" in refused
