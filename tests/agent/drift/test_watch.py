"""The drift of a release: what is an alarm, what is none, and what a restart keeps."""

import json
import logging

import numpy as np
import pytest

from edgeopt_agent.drift.look import figures_of
from edgeopt_agent.drift.settings import DriftSettings
from edgeopt_agent.drift.watch import DriftWatch, text_of

RELEASE = "aaaaaaaaaaaa"
AN_HOUR = 3600
"""Requests, at one a second."""


class Detections:
    """Requests to a detector, most of which it answers with two to eight boxes."""

    def __init__(self):
        self.rng = np.random.default_rng(3)

    def send(self, watch, count, found=None):
        """How many requests it took to an alarm; `found`: the number of boxes of each."""
        for number in range(1, count + 1):
            rows = int(self.rng.integers(2, 9)) if found is None else found
            x = self.rng.standard_normal(64).astype(np.float32)
            boxes = self.rng.random((rows, 4)).astype(np.float32)
            watch.note(RELEASE, figures_of({"x": x}, {"boxes": boxes}, {"boxes": [0]}))
            if watch.alarm is not None:
                return number
        return None


class Traffic:
    """Requests to a model with one input and one output, whose brightness and contrast differ from each other."""

    def __init__(self, seed=56):
        self.rng = np.random.default_rng(seed)

    def figures(self, scale=1.0):
        contrast, brightness = self.rng.uniform(0.8, 1.2), self.rng.normal(0.0, 0.1)
        x = (scale * (brightness + contrast * self.rng.standard_normal(64))).astype(np.float32)
        return figures_of({"x": x}, {"y": np.tanh(x[:8])})

    def send(self, watch, count, scale=1.0, release=RELEASE):
        """How many requests it took to an alarm; None without one."""
        for number in range(1, count + 1):
            watch.note(release, self.figures(scale))
            if watch.alarm is not None:
                return number
        return None


@pytest.mark.parametrize("seed", range(3))
def test_scaled_inputs_after_an_hour_of_normal_ones_are_an_alarm_within_200_requests(seed):
    watch, traffic = DriftWatch(DriftSettings()), Traffic(seed)
    assert traffic.send(watch, AN_HOUR + 7 * seed) is None
    took = traffic.send(watch, 200, scale=1.5)
    assert took is not None
    status = watch.status(RELEASE)
    assert (status.state, status.tensor, status.requests) == ("alarm", "x", 1000)
    assert status.statistic in {"std", "min", "max"}
    assert status.since_s is not None
    assert "of the input 'x' has changed" in status.sentence


def test_a_detector_that_finds_nothing_any_more_is_an_alarm():
    watch, detections = DriftWatch(DriftSettings()), Detections()
    assert detections.send(watch, 3000) is None
    assert detections.send(watch, 200, found=0) is not None
    status = watch.status(RELEASE)
    assert (status.tensor, status.statistic) == ("boxes", "size_0")
    assert status.sentence.startswith("The size of axis 0 of the output 'boxes' has changed: its median is ")


def test_a_detector_that_finds_something_again_is_no_alarm_any_more():
    watch, detections = DriftWatch(DriftSettings()), Detections()
    detections.send(watch, 1000)
    assert detections.send(watch, 200, found=0) is not None
    for _ in range(600):
        detections.send(watch, 1)
    assert watch.alarm is None


def test_a_reference_without_sizes_is_learned_anew():
    saved = []
    watch = DriftWatch(DriftSettings(), save=lambda kept: saved.append(text_of(kept)))
    Detections().send(watch, 1000)
    earlier = json.loads(saved[-1])
    assert earlier.pop("sizes")
    again = DriftWatch(DriftSettings(), read=json.dumps(earlier).encode)
    assert again.status(RELEASE).state == "learning"


def test_10000_normal_requests_are_no_alarm():
    watch = DriftWatch(DriftSettings())
    assert Traffic().send(watch, 10_000) is None
    assert watch.status(RELEASE).state == "normal"
    assert 0 < watch.score < 1


def test_false_alarms_come_no_more_often_than_stated():
    # A rate that a test can see: one false alarm in 500 requests at most.
    settings = DriftSettings(reference_requests=100, window_requests=50, false_alarm_requests=500)
    alarms = sum(Traffic(seed).send(DriftWatch(settings), 150) is not None for seed in range(60))
    assert alarms <= 60 * 50 / 500 + 3 * 6**0.5


def test_an_alarm_is_logged_once_and_ends_after_a_window_of_normal_requests(caplog):
    watch, traffic = DriftWatch(DriftSettings(reference_requests=300)), Traffic()
    caplog.set_level(logging.WARNING)
    traffic.send(watch, 300)
    for _ in range(600):
        watch.note(RELEASE, traffic.figures(scale=1.5))
    since_s = watch.status(RELEASE).since_s
    assert len(caplog.messages) == 1
    assert "drift" in caplog.messages[0]
    for _ in range(600):
        watch.note(RELEASE, traffic.figures())
    assert watch.alarm is None
    assert since_s is not None
    assert len(caplog.messages) == 2


def test_the_reference_survives_a_restart_for_the_same_release():
    saved = []
    watch, traffic = DriftWatch(DriftSettings(), save=lambda kept: saved.append(text_of(kept))), Traffic()
    traffic.send(watch, 1000)
    again = DriftWatch(DriftSettings(), read=saved[-1].encode)
    assert again.status(RELEASE).state == "normal"
    assert traffic.send(again, 200, scale=1.5) is not None


def test_what_was_learned_so_far_survives_a_restart():
    saved = []
    watch, traffic = DriftWatch(DriftSettings(), save=lambda kept: saved.append(text_of(kept))), Traffic()
    traffic.send(watch, 250)
    again = DriftWatch(DriftSettings(), read=saved[-1].encode)
    status = again.status(RELEASE)
    assert (status.state, status.requests) == ("learning", 200)
    traffic.send(again, 800)
    assert again.status(RELEASE).state == "normal"


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"release": 1}'])
def test_a_damaged_file_is_ignored(content):
    assert DriftWatch(DriftSettings(), read=lambda: content).status(RELEASE).requests == 0


def test_a_reference_that_lost_a_part_is_ignored():
    saved = []
    watch, traffic = DriftWatch(DriftSettings(), save=lambda kept: saved.append(text_of(kept))), Traffic()
    traffic.send(watch, 1000)
    whole = json.loads(saved[-1])
    whole["learned"][3]["reference"]["shares"].pop()
    again = DriftWatch(DriftSettings(), read=json.dumps(whole).encode)
    assert traffic.send(again, 100) is None
    assert again.status(RELEASE).state == "learning"


def test_another_release_has_a_reference_of_its_own():
    saved = [""]
    watch = DriftWatch(
        DriftSettings(), save=lambda kept: saved.append(text_of(kept)), read=lambda: "".join(saved[-1:]).encode()
    )
    traffic = Traffic()
    traffic.send(watch, 1000)
    assert traffic.send(watch, 200, scale=1.5) is not None
    assert traffic.send(watch, 10, release="bbbbbbbbbbbb") is None
    status = watch.status("bbbbbbbbbbbb")
    assert (status.state, status.requests) == ("learning", 10)


def test_a_release_that_soaks_teaches_nothing():
    watch = DriftWatch(DriftSettings(), watched=lambda _: False)
    Traffic().send(watch, 100)
    assert watch.status(RELEASE).requests == 0


def test_other_answers_to_the_golden_inputs_are_an_alarm_until_they_are_right_again(caplog):
    caplog.set_level(logging.WARNING)
    watch = DriftWatch(DriftSettings(), now_s=lambda: 12.0)
    changes = []
    watch.on_change = lambda: changes.append(watch.alarm is not None)
    watch.note_golden(RELEASE, "")
    assert watch.alarm is None
    for _ in range(2):
        watch.note_golden(RELEASE, "The release reaches 3.0 dB; its floor is 30.0 dB.")
    status = watch.status(RELEASE)
    assert (status.state, status.statistic, status.since_s) == ("alarm", "golden", 12.0)
    assert "differ from the bundle's. The release reaches 3.0 dB" in status.sentence
    watch.note_golden(RELEASE, "")
    assert watch.status(RELEASE).state == "learning"
    assert changes == [True, False]
    assert len(caplog.messages) == 2
