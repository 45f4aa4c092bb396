import shlex

from edgeopt_gui.jobs.command import Command


def test_the_line_can_be_typed_in_a_shell_even_with_spaces_in_names():
    command = Command("Analyzing", ("analyze", "my models/a b.onnx"))
    assert shlex.split(command.line) == ["edgeopt", "analyze", "my models/a b.onnx"]


def test_measuring_the_device_is_a_measurement_and_reading_it_is_none():
    assert Command("", ("probe", "--deep")).measures
    assert not Command("", ("probe",)).measures
    assert not Command("", ("optimize", "m.onnx", "--device", "d.json")).measures
