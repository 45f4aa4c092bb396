"""The page Device: what the probe found, the target chosen for it, and what the device is doing now."""

import time
from pathlib import Path
from typing import Any

import msgspec
from PySide6.QtGui import QGuiApplication

from edgeopt.decoding import thread_safe
from edgeopt.hw.device import Device
from edgeopt.hw.load import LoadSample
from edgeopt.profiles.targets import TargetVerdict
from edgeopt_gui.actions.action import Action, Face
from edgeopt_gui.context import Context
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.pages.base import Entry, Page
from edgeopt_gui.pages.device.content import DeviceContent
from edgeopt_gui.pages.device.sampling import LoadWatch
from edgeopt_gui.widgets import dialogs

_PROBE = Command("Reading the device", ("probe",))
_EXPLAIN = Command("Reading the device", ("probe", "--explain"))
_TARGETS = Command("Choosing the target", ("targets",))
_SOURCES = "device.sources"


class DevicePage(Page):
    MEASURES = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.device: Device | None = None
        self._record: dict[str, Any] = {}
        self._jobs: list[Job] = []
        self.view = DeviceContent()
        self.view.copied.connect(self._copy)
        self.view.show_sources(context.settings.flag(_SOURCES))
        self.set_content(self.view)
        self._watch = LoadWatch(self)
        self._watch.sampled.connect(self._sampled)
        context.device_measured.connect(self._probed)
        self.show_empty("The device has not been read yet.", "device.probe")

    def entered(self) -> None:
        self._watch.start()
        if self.device is None and self.state == "empty":
            self.probe()

    def left(self) -> None:
        self._watch.stop()

    def show_refusal(self, ending: Ending) -> None:
        """Shows the refusal in a dialog, because the page continues to show the device."""
        self.context.report(ending)

    def command(self) -> Command:
        return _PROBE

    def key_to_measure(self) -> str:
        return "device.probe"

    def has_measured(self) -> bool:
        return self.device is not None and bool(self.device.peaks)

    def probe(self) -> None:
        if self.device is None:
            self.show_busy("Reading the device…")
        for command, answer in ((_PROBE, self._probed), (_TARGETS, self._targeted)):
            job = self.context.jobs.run(command)
            self._jobs.append(job)
            job.ended.connect(answer)
            job.ended.connect(lambda _, job=job: self._ended(job))
        self.context.changed.emit()

    def why_not_probe(self) -> str:
        return "The device is being read." if self._jobs else ""

    def why_not_known(self) -> str:
        return "" if self.device is not None else "The device has not been read yet."

    def face_of_sources(self) -> Face | None:
        return Face("Hide sources") if self.context.settings.flag(_SOURCES) else None

    def command_of_sources(self) -> Command:
        return _EXPLAIN

    def toggle_sources(self) -> None:
        shown = not self.context.settings.flag(_SOURCES)
        self.context.settings.keep(_SOURCES, shown)
        self.view.show_sources(shown)

    def copy(self) -> None:
        QGuiApplication.clipboard().setText(self.record())
        self.context.say("Copied the device record as JSON.")

    def save(self) -> None:
        path = dialogs.choose_save(
            self, "Save the device's record", "JSON (*.json)", "device-record", "device.json"
        )
        if path is not None:
            self.save_to(path)

    def save_to(self, path: Path) -> None:
        try:
            path.write_text(self.record() + "\n", encoding="utf-8")
        except OSError as error:
            what = f"The record could not be saved to '{path}': {error.strerror or error}."
            self.context.report(Ending("failed", {}, what, "Choose another folder, or free some space."))
            return
        self.context.say(f"Saved to {path}.")

    def record(self) -> str:
        """Returns the device as indented JSON."""
        return msgspec.json.format(msgspec.json.encode(self._record), indent=2).decode()

    def _probed(self, ending: Ending) -> None:
        if ending.how == "cancelled" and self.device is not None:
            return  # what was read before still holds
        if not ending.good:
            self.show_error(ending, "device.probe")
            return
        self._record = ending.data
        self.device = msgspec.convert(ending.data, thread_safe(Device))
        self.view.show_device(self.device, time.time())
        self.show_content()

    def _targeted(self, ending: Ending) -> None:
        if ending.how == "cancelled" and self.view.targets.rows:
            return
        if ending.good:
            self.view.show_targets(msgspec.convert(ending.data["targets"], thread_safe(tuple[TargetVerdict, ...])))
        else:
            self.view.show_no_targets(ending.what, ending.next_step)

    def _ended(self, job: Job) -> None:
        self._jobs.remove(job)
        self.context.changed.emit()

    def _sampled(self, sample: LoadSample) -> None:
        self.view.show_load(sample)

    def _copy(self, text: str) -> None:
        QGuiApplication.clipboard().setText(text)
        self.context.say(f"Copied: {text}")


ENTRY = Entry(
    "device",
    "Device",
    "device",
    DevicePage,
    (
        Action(
            "device.probe",
            "Read the device again",
            "Device",
            DevicePage.probe,
            why_not=DevicePage.why_not_probe,
            shortcut="Ctrl+R",
            icon="refresh",
            command=DevicePage.command,
        ),
        Action(
            "device.sources",
            "Show sources",
            "Device",
            DevicePage.toggle_sources,
            why_not=DevicePage.why_not_known,
            icon="eye",
            command=DevicePage.command_of_sources,
            face=DevicePage.face_of_sources,
        ),
        Action(
            "device.copy",
            "Copy the record",
            "Device",
            DevicePage.copy,
            why_not=DevicePage.why_not_known,
            icon="copy",
            command=DevicePage.command,
        ),
        Action(
            "device.save",
            "Save the record…",
            "Device",
            DevicePage.save,
            why_not=DevicePage.why_not_known,
            icon="save",
            command=DevicePage.command,
        ),
    ),
    "See the device and the target that edgeopt optimizes for.",
)
