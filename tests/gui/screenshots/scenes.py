"""The states of each page for screenshots, reached by actions that a user could do."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from PySide6.QtWidgets import QSlider, QSpinBox, QTabWidget

from edgeopt.events import Log, Update
from edgeopt.lab.records import write_results
from edgeopt_gui.context import GraphPair
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.pages.fleet.connection import Connection
from edgeopt_gui.pages.fleet.fleet_page import FleetPage
from edgeopt_gui.pages.lab.lab_page import LabPage
from edgeopt_gui.subject import subject_at
from tests.bundle.runtime.decoder import long_weights, write_decoder
from tests.gui.screenshots.example_fleet import example_fleet
from tests.gui.screenshots.example_lab import example_lab
from tests.gui.screenshots.stage import Stage

Scene = Iterator[str]
"""Yields the name of each state once the stage shows it."""

# The bar of jobs shows a job only after a delay.
_SHOWN_S = 0.6
_WATCHED_S = 6.0
_RACED_S = 2.0
_SEARCH_LIMIT_S = 20
_COMPARED_S = 15
_PLAN_LIMIT_S = 40


def device(stage: Stage) -> Scene:
    page = stage.page("device")
    page.show_empty("The device has not been read yet.", "device.probe")
    stage.context.changed.emit()
    yield "empty"
    page.show_busy("Reading the device…")
    stage.context.changed.emit()
    yield "busy"
    stage.wait_for_jobs()
    stage.wait(3.0)  # the gauges draw what the device does meanwhile
    yield "full"
    stage.do("device.sources")
    stage.wait(0.2)
    yield "full, with sources"
    stage.do("device.sources")


def model(stage: Stage) -> Scene:
    page = stage.page("model")
    stage.wait_for_jobs()
    yield "empty"
    stage.hold()
    stage.context.open(subject_at(stage.model))
    stage.wait(_SHOWN_S)
    yield "busy"
    stage.wait_for_jobs()
    stage.wait_until(lambda: page.state == "content")
    stage.wait(0.5)
    yield "full"
    (tabs,) = page.findChildren(QTabWidget)
    tabs.setCurrentIndex(4)
    stage.wait(0.3)
    yield "weights"
    tabs.setCurrentIndex(0)
    broken = stage.folder / "broken.onnx"
    broken.write_bytes(stage.model.read_bytes()[:2000])
    stage.context.open(subject_at(broken))
    stage.wait_until(lambda: page.state == "error")
    yield "error"


def graph(stage: Stage) -> Scene:
    page = stage.page("graph")
    stage.wait_for_jobs()
    yield "empty"
    stage.hold()
    stage.context.open(subject_at(stage.model))
    stage.page("graph")
    stage.wait(_SHOWN_S)
    yield "busy"
    stage.wait_for_jobs()
    stage.wait_until(lambda: page.state == "content")
    stage.wait(0.5)
    yield "by category"
    stage.do("graph.measure")
    stage.wait_for_jobs()
    convolution = next(node.position for node in stage.context.nodes if node.operator == "Conv")
    stage.context.node_picked.emit(convolution)
    stage.wait(0.5)
    yield "full"
    stage.do("graph.fit")
    stage.wait(0.3)
    yield "whole"
    stage.context.show_in_graph(GraphPair(convolution, _simplified(stage)))
    stage.wait_for_jobs()
    stage.wait(0.5)
    yield "beside another model"
    broken = stage.folder / "broken.onnx"
    broken.write_bytes(stage.model.read_bytes()[:2000])
    stage.context.open(subject_at(broken))
    stage.page("graph")
    stage.wait_until(lambda: page.state == "error")
    yield "error"


def optimize(stage: Stage) -> Scene:
    # With a cache of its own, a new search runs, and no earlier result is shown.
    os.environ["EDGEOPT_CACHE"] = str((stage.folder / "cache").absolute())
    stage.settings.keep("optimize.time-limit-s", _SEARCH_LIMIT_S)
    page = stage.page("optimize")
    stage.wait_for_jobs()
    yield "empty"
    stage.window.open_paths([stage.model, stage.data])
    stage.page("optimize")
    stage.wait_for_jobs()
    stage.wait(0.3)
    yield "ready"
    stage.settings.keep("optimize.unfolded", True)
    stage.wait(0.2)
    yield "ready, with more settings"
    stage.settings.keep("optimize.unfolded", False)
    stage.do("optimize.start")
    stage.wait_until(lambda: bool(stage.context.jobs.jobs))
    job = stage.context.jobs.jobs[-1]
    stage.wait_until(lambda: job.ending is not None or _races(job))
    stage.wait(_RACED_S)
    with stage.paused():
        yield "busy"
    stage.wait_for_jobs()
    stage.wait(0.3)
    yield "full"
    stage.hold()
    stage.do("optimize.start")
    stage.wait_until(lambda: bool(stage.context.jobs.jobs))
    stage.context.jobs.jobs[-1].kill()
    stage.wait_until(lambda: page.state == "error")
    stage.wait(0.2)
    yield "error"
    del os.environ["EDGEOPT_CACHE"]


def precision(stage: Stage) -> Scene:
    stage.settings.keep("precision.time-limit-s", _PLAN_LIMIT_S)
    page = stage.page("precision")
    stage.wait_for_jobs()
    yield "empty"
    stage.window.open_paths([stage.model, stage.data])
    stage.page("precision")
    stage.wait_for_jobs()
    stage.wait(0.3)
    yield "ready"
    stage.do("precision.start")
    stage.wait_until(lambda: any(job.progress is not None for job in stage.context.jobs.jobs))
    stage.wait(_SHOWN_S)
    with stage.paused():
        yield "busy"
    stage.wait_for_jobs()
    stage.wait(0.3)
    yield "full"
    (slider,) = page.findChildren(QSlider)
    slider.setValue(slider.maximum() - 1)
    stage.wait(0.2)
    yield "full, another plan"
    stage.hold()
    stage.do("precision.start")
    stage.wait_until(lambda: bool(stage.context.jobs.jobs))
    stage.context.jobs.jobs[-1].kill()
    stage.wait_until(lambda: page.state == "error")
    stage.wait(0.2)
    yield "error"


def compare(stage: Stage) -> Scene:
    page = stage.page("compare")
    stage.wait_for_jobs()
    yield "empty"
    other = _with_other_weights(stage.model, stage.folder / "digits_half.onnx")
    stage.window.open_paths([stage.model, stage.data])
    stage.page("compare")
    stage.wait_for_jobs()
    stage.window.shown_page.take_drop([stage.model, _simplified(stage)])
    stage.wait(0.3)
    yield "ready"
    (limit,) = page.findChildren(QSpinBox)
    limit.setValue(_COMPARED_S)
    stage.do("compare.start")
    stage.wait_until(lambda: any(job.command.measures for job in stage.context.jobs.jobs))
    stage.wait(_SHOWN_S)
    with stage.paused():
        yield "busy"
    stage.wait_for_jobs()
    stage.wait(0.3)
    yield "full"
    stage.window.shown_page.take_drop([stage.model, other])
    stage.do("compare.start")
    stage.wait_for_jobs()
    stage.wait(0.3)
    yield "full, with a layer that differs"
    (tabs,) = page.findChildren(QTabWidget)
    for place in range(1, tabs.count()):
        tabs.setCurrentIndex(place)
        stage.wait(0.2)
        yield f"full, {tabs.tabText(place)}"
    decoders = [write_decoder(stage.folder / f"lm_{k}.onnx", held=long_weights(k)) for k in (0, 1)]
    stage.window.open_paths(decoders[:1])
    stage.page("compare")
    stage.wait_for_jobs()
    stage.window.shown_page.take_drop(decoders)
    tabs.setCurrentIndex(0)
    stage.do("compare.start")
    stage.wait_for_jobs()
    stage.wait(0.3)
    yield "full, language models"
    other.write_bytes(b"no model any more")
    copy = stage.folder / "broken.onnx"
    copy.write_bytes(b"no model either")
    stage.window.shown_page.take_drop([copy, other])
    stage.do("compare.start")
    stage.wait_for_jobs()
    stage.wait_until(lambda: page.state == "error")
    yield "error"


def _simplified(stage: Stage) -> Path:
    """Writes the sample after the exact rewrites, which is faster and has other nodes."""
    from edgeopt.commands.simplify.request import SimplifyRequest
    from edgeopt.commands.simplify.simplify import simplify

    path = stage.folder / "digits_lean.onnx"
    simplify(SimplifyRequest(stage.model, path))
    return path


def _with_other_weights(source: Path, path: Path) -> Path:
    """Writes the sample with one weight rounded to half precision."""
    import onnx

    model = onnx.load(source)
    weight = next(each for each in model.graph.initializer if len(each.dims) == 4)
    rounded = onnx.numpy_helper.to_array(weight).astype("float16").astype("float32")
    weight.CopyFrom(onnx.numpy_helper.from_array(rounded, weight.name))
    onnx.save(model, path)
    return path


def live(stage: Stage) -> Scene:
    page = stage.page("live")
    stage.wait_for_jobs()
    yield "empty"
    stage.context.open(subject_at(stage.model))
    stage.context.use_data(stage.data)
    stage.page("live")
    stage.wait_for_jobs()
    stage.hold()
    stage.do("live.start")
    stage.wait_until(lambda: page.state == "busy")
    stage.wait(_SHOWN_S)
    yield "busy"
    stage.go_on()
    stage.wait_until(lambda: page.state == "content")
    stage.wait(_WATCHED_S)
    with stage.paused():
        yield "full"
    stage.do("live.stop")
    stage.wait_for_jobs()
    stage.do("live.clear")
    stage.model.write_bytes(b"no model any more")
    stage.do("live.start")
    stage.wait_until(lambda: page.state == "error")
    yield "error"


def fleet(stage: Stage) -> Scene:
    """Devices and a rollout as the command line tells them, without a broker."""
    page = stage.page("fleet")
    assert isinstance(page, FleetPage)
    stage.wait_for_jobs()
    yield "empty"
    stage.hold()
    page.connect_to(Connection("mqtts://broker.example.com"))
    stage.wait(_SHOWN_S)
    yield "busy"
    page.link.take_event(Log("info", "Connected.", kind="broker-connected"))
    page.link.take_event(Update("fleet", msgspec.to_builtins(example_fleet())))
    stage.wait(0.2)
    page.devices.table.pick("camera-07")
    yield "devices"
    page.tabs.setCurrentWidget(page.rollouts)
    yield "rollout"
    page.disconnect_from()
    stage.wait_for_jobs()
    page.connect_to(Connection("mqtt://127.0.0.1:1"))
    stage.wait_until(lambda: page.state == "error")
    yield "error"


def lab(stage: Stage) -> Scene:
    """A lab as the command line reports it, on devices that do not exist."""
    page = stage.page("lab")
    assert isinstance(page, LabPage)
    stage.wait_for_jobs()
    yield "empty"
    stage.hold()
    file = stage.folder / "lab.toml"
    file.write_text("[[devices]]\n")
    page.open_lab(file)
    stage.do("lab.start")
    for cell in example_lab().cells[:6]:
        page.take_event(Update("lab-cell", msgspec.to_builtins(cell)))
    stage.wait(_SHOWN_S)
    yield "busy"
    stage.wait_for_jobs()
    stage.wait_until(lambda: page.state == "error")
    yield "error"
    (stage.folder / "results").mkdir()
    write_results(example_lab(), stage.folder / "results")
    page.open_lab(file)
    stage.wait_until(lambda: page.state == "content")
    page.table.pick(("detector", "camera"))
    yield "full"


def device_without_a_command_line(stage: Stage) -> Scene:
    """Yields the error after the probe was killed, because the probe does not fail by itself."""
    page = stage.page("device")
    for job in stage.context.jobs.jobs:
        job.kill()
    stage.wait_until(lambda: page.state == "error")
    yield "error"


def _races(job: Job) -> bool:
    return job.progress is not None and job.progress.phase == "racing"


Scenes = tuple[Callable[[Stage], Scene], ...]

SCENES: tuple[tuple[str, Scenes], ...] = (
    ("device", (device, device_without_a_command_line)),
    ("model", (model,)),
    ("graph", (graph,)),
    ("optimize", (optimize,)),
    ("precision", (precision,)),
    ("compare", (compare,)),
    ("live", (live,)),
    ("fleet", (fleet,)),
    ("lab", (lab,)),
)
