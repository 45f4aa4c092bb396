import pytest

from edgeopt.cli.console import next_steps


@pytest.mark.parametrize(
    ("folders", "command"),
    [
        ((), ""),
        (("text",), "edgeopt run m.edgeopt --prompt 'Once upon a time'"),
        (("text", "encoder"), "edgeopt run m.edgeopt --audio speech.wav"),
    ],
)
def test_next_step_of_a_bundle_that_answers_is_to_ask_it(tmp_path, monkeypatch, folders, command):
    monkeypatch.chdir(tmp_path)
    for folder in folders:
        (tmp_path / "m.edgeopt" / folder).mkdir(parents=True)
    found = str(next_steps(tmp_path.joinpath("m.edgeopt").relative_to(tmp_path), None))
    assert ("edgeopt run" in found) is bool(command)
    assert command in found
