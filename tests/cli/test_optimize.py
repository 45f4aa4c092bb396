"""`edgeopt optimize --json`, stopped from outside as the desktop app stops it."""

import io
import json
import time

import msgspec
import numpy as np
import psutil
import pytest
from rich.console import Console

from edgeopt.graph.accuracy import compare_outputs
from edgeopt.measure.stats import IDENTICAL, UNITY
from edgeopt.pipeline.prove.report import front_of
from edgeopt.views.outcome import proof_lines, show
from edgeopt.views.terminal import write
from tests.commands.report.evidence import outcome

PHASES = (
    "reading the model",
    "making variants",
    "screening",
    pytest.param("racing", marks=pytest.mark.slow),
    pytest.param("tuning", marks=pytest.mark.slow),
    pytest.param("proving", marks=pytest.mark.slow),
)


@pytest.mark.parametrize("phase", PHASES)
def test_sigterm_ends_it_in_every_phase(start, ends, conv_model, conv_data, short_profile, tmp_path, phase):
    out = tmp_path / "out.edgeopt"
    run = start("optimize", conv_model, "-o", out, "--data", conv_data, "--profile", short_profile, "--json")
    run.first_line_with(f'"phase":"{phase}"')
    children = psutil.Process(run.process.pid).children(recursive=True)
    begin = time.monotonic()
    run.process.terminate()
    code, told, err = run.finish()
    assert time.monotonic() - begin < 60
    assert (code, err) == (143, "")
    last = json.loads(told.splitlines()[-1])
    assert (last["event"], last["code"]) == ("error", "terminated")
    assert ends(*(child.pid for child in children))
    assert [p.name for p in tmp_path.iterdir() if p == out or p.name.startswith(".")] == []
    assert list(run.temporary.iterdir()) == []


def test_a_second_signal_changes_nothing(start, conv_model, conv_data, tmp_path):
    run = start("optimize", conv_model, "-o", tmp_path / "o.edgeopt", "--data", conv_data, "--json")
    run.first_line_with('"phase":"making variants"')
    run.process.terminate()
    run.process.terminate()
    code, told, err = run.finish()
    assert (code, err) == (143, "")
    assert json.loads(told.splitlines()[-1])["code"] == "terminated"


def test_standings_are_lines_of_json_and_no_words_for_people(start, conv_model, short_profile, tmp_path):
    run = start("optimize", conv_model, "-o", tmp_path / "o.edgeopt", "--profile", short_profile, "--json")
    line = json.loads(run.first_line_with('"event":"standing"'))
    assert (line["candidate"], line["status"]) == ("source · onnxruntime-cpu", "racing")
    run.process.terminate()
    run.finish()


def test_the_table_marks_who_is_on_the_front_and_says_what_to_do_with_it():
    found = outcome()
    found = msgspec.structs.replace(found, front=front_of(found.candidates), is_cached=True)
    lines = shown(found)
    # The winner, and the exact one that is fastest; all take the same memory.
    assert [line.split()[0] for line in lines if line.lstrip()[:1].isdigit()][:3] == ["1*", "2", "3*"]
    assert any(line.endswith("as small: 1, 3; deliver another with --pick N.") for line in lines)
    assert any("x the latency" in line for line in lines)
    # What was cut short is not kept, so there is nothing to pick from.
    lines = shown(msgspec.structs.replace(found, cut_short="The search was stopped.", is_cached=False))
    assert not any("--pick" in line for line in lines)
    assert any("complete the search from the cache" in line for line in lines)


def test_the_winner_has_its_proved_figure_and_the_source_is_as_fast_as_itself():
    found = outcome()
    proved = [
        msgspec.structs.replace(each, speedup=found.proof.speedup) if each.status == "winner" else each
        for each in found.candidates
    ]
    found = msgspec.structs.replace(found, candidates=tuple(proved))
    lines = shown(found)
    winner = next(line for line in lines if line.startswith(("1 ", " 1")) or line.lstrip().startswith("1"))
    assert str(found.proof.speedup) in winner
    source = next(line for line in lines if "the baseline" in line)
    assert "1.00x" in source


def test_undecided_is_said_so():
    found = outcome()
    undecided = "Undecided: the proof is too noisy to tell. The bundle holds your model unchanged."
    changed = msgspec.structs.replace(found, verdict="undecided", summary=undecided, winner=found.baseline)
    proof = msgspec.structs.replace(found.proof, verdict=IDENTICAL, speedup=UNITY, legs=1)
    text = " ".join(" ".join(shown(msgspec.structs.replace(changed, proof=proof))).split())
    assert undecided in text
    assert "Measured from the written bundle, which runs your model unchanged: 800 µs a run" in text
    assert "Measured in peace." in text
    assert "faster" not in text.lower()


def shown(found):
    text = io.StringIO()
    write(show(found), Console(file=text, width=200))
    return [line.rstrip() for line in text.getvalue().splitlines()]


def test_a_proof_without_values_does_not_claim_accuracy():
    answers = [{"y": np.full(3, np.inf)}]
    outputs = tuple(each.without_samples() for each in compare_outputs(answers, answers).outputs)
    found = outcome()
    empty = msgspec.structs.replace(found, proof=msgspec.structs.replace(found.proof, outputs=outputs))
    sentence = "The accuracy is not proved: all outputs are NaN, infinite, empty or zero on these samples."
    assert sentence in proof_lines(empty)
    assert sentence not in proof_lines(found)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"set_aside": True}, "on 8 samples set aside"),
        ({"set_aside": False}, "on 8 samples that the search had used before"),
        ({"set_aside": False, "generated": True}, "on 8 generated samples"),
    ],
    ids=["set aside", "shared", "generated"],
)
def test_a_proof_names_the_kind_of_its_samples(changes, expected):
    found = outcome()
    proved = msgspec.structs.replace(found, proof=msgspec.structs.replace(found.proof, **changes))
    assert expected in proof_lines(proved)[0]
