import io

import msgspec
import pytest
from rich.console import Console

from edgeopt.cli.demo import show
from edgeopt.commands.demo import Demo, accuracy_sentence, gains_and_losses
from edgeopt.pipeline.prove.report import front_of
from edgeopt.views.terminal import write
from tests.commands.report.evidence import memory, outcome
from tests.conftest import this_device


@pytest.fixture
def shown():
    """The text of a demo whose winner takes more memory, and whose outputs have this accuracy."""

    def text(accuracy_db=43.1, **changes):
        found = outcome()
        taken = {"memory": memory(70), "baseline_memory": memory(60)}
        proof = msgspec.structs.replace(found.proof, accuracy_db=accuracy_db, **taken)
        found = msgspec.structs.replace(found, proof=proof, **changes)
        told = Demo(
            "m.onnx",
            this_device(),
            found,
            *gains_and_losses(found, "OpenVINO"),
            accuracy_sentence(found),
            "r.html",
        )
        out = io.StringIO()
        write(show(told), Console(file=out, width=160))
        return out.getvalue()

    return text


def gained(text):
    """The names in the table of gains."""
    return [line.split("  ")[0] for line in text.split("what was gained")[1].split("\n\n")[0].splitlines()[1:]]


def test_a_loss_is_not_in_the_list_of_gains(shown):
    text = shown()
    assert "latency" in gained(text)
    assert not {"memory added", "accuracy"} & set(gained(text))
    assert "Worse than before: memory added, 42 MiB instead of 36 MiB" in text
    assert "Accuracy: 43.1 dB against the source model on " in text


def test_equal_outputs_are_a_proper_sentence(shown):
    assert "Accuracy: equal to the source model on " in shown(200.0)
    assert "200.0 dB" not in shown(200.0)


def test_no_option_is_offered_that_the_command_does_not_have(shown):
    text = shown(is_cached=True, front=front_of(outcome().candidates))
    assert "Pareto front" in text
    assert "--pick" not in text


def test_a_search_that_keeps_the_model_gains_nothing():
    found = msgspec.structs.replace(outcome(), winner=outcome().baseline, verdict="keep what you have")
    better, worse = gains_and_losses(found, "ONNX Runtime")
    assert "latency" not in {each.what for each in (*better, *worse)}
