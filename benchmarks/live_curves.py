"""What a frame of the live charts costs: eight curves of 100,000 samples, one more sample each a frame.

python benchmarks/live_curves.py [--frames 100]

Interleaved with pyqtgraph's peak down-sampling of the same samples. A frame is everything from the new samples to
the painted pixels at 1200 x 800, without a screen.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QSize
from PySide6.QtWidgets import QApplication, QVBoxLayout, QWidget

from edgeopt_gui.pages.live import panels
from edgeopt_gui.plots.chart import Chart
from edgeopt_gui.plots.ring import Ring
from edgeopt_gui.plots.span import Span

SAMPLES = 100_000
STEP_S = 0.1
SIZE = QSize(1200, 800)
KEYS = (
    panels.LATENCY,
    panels.P50,
    panels.P90,
    panels.P99,
    panels.PROCESS_MEMORY,
    panels.DEVICE_MEMORY,
    panels.LOAD,
    panels.TEMPERATURE,
)
BEGIN_S = 1.75e9


@dataclass(frozen=True)
class Frame:
    wall_ms: float
    cpu_ms: float
    """Of the thread of the window: what the machine does besides is not in it."""


def samples(count: int) -> dict[str, np.ndarray]:
    """As a model and a device give them: a slow drift under noise that is never negative."""
    random = np.random.default_rng(0)
    drift = 0.25 + 0.02 * np.sin(np.arange(count) / 3000)
    made = {
        panels.LATENCY: drift * (1 + 0.15 * random.gamma(1, 0.6, count)),
        panels.P50: drift * 1.05,
        panels.P90: drift * 1.3,
        panels.P99: drift * 1.8 + 0.02 * random.random(count),
        panels.PROCESS_MEMORY: 120e6 + 3e6 * random.random(count),
        panels.DEVICE_MEMORY: 3e9 + 2e8 * np.sin(np.arange(count) / 500) + 1e7 * random.random(count),
        panels.LOAD: (50 + 10 * random.standard_normal(count)).clip(0, 100),
        panels.TEMPERATURE: 55 + 3 * np.sin(np.arange(count) / 5000) + 0.5 * random.random(count),
    }
    return {key: made[key] for key in KEYS}


class Ours:
    """The chart of the Live page."""

    def __init__(self, values: dict[str, np.ndarray], rings: dict[str, Ring] | None = None) -> None:
        self._values = values
        self._rings = rings or {key: Ring() for key in KEYS}
        for key, ring in self._rings.items():
            for place in range(len(ring), SAMPLES):
                ring.append(BEGIN_S + place * STEP_S, float(values[key][place]))
        self.widget = Chart(panels.PANELS, self._rings)
        self.widget.span = Span(SAMPLES * STEP_S)

    def draw(self, place: int) -> None:
        for key, ring in self._rings.items():
            ring.append(BEGIN_S + place * STEP_S, float(self._values[key][place]))
        self.widget.redraw()


class Theirs:
    """Plots of pyqtgraph as its documentation tells to make them fast."""

    def __init__(self, values: dict[str, np.ndarray]) -> None:
        self._values = values
        self._times = BEGIN_S + np.arange(len(values[panels.P50])) * STEP_S
        self.widget = QWidget()
        rows = QVBoxLayout(self.widget)
        rows.setSpacing(0)
        self._plots, self._curves = [], {}
        for panel in panels.PANELS:
            if not any(curve.key in values for curve in panel.curves):
                continue
            plot = pg.PlotWidget()
            rows.addWidget(plot, panel.share)
            self._plots.append(plot)
            for place, curve in enumerate(panel.curves):
                item = plot.plot([], [], pen=pg.mkPen(place, width=1), antialias=False)
                item.setDownsampling(auto=True, method="peak")
                item.setClipToView(True)
                self._curves[curve.key] = item

    def draw(self, place: int) -> None:
        part = slice(place + 1 - SAMPLES, place + 1)
        for key, item in self._curves.items():
            item.setData(self._times[part], self._values[key][part], connect="all", skipFiniteCheck=True)
        for plot in self._plots:
            plot.setXRange(self._times[part.start], self._times[place], padding=0)


def frame(application: QApplication, draw: Callable[[int], None], place: int) -> Frame:
    """Draws one, and waits until it is painted."""
    wall, cpu = time.perf_counter(), time.thread_time()
    draw(place)
    application.processEvents()
    return Frame((time.perf_counter() - wall) * 1e3, (time.thread_time() - cpu) * 1e3)


def measure(frames: int) -> dict[str, list[Frame]]:
    """Frames of both, interleaved."""
    application = QApplication.instance() or QApplication([])
    values = samples(SAMPLES + frames + 10)
    sides = {"edgeopt": Ours(values), "pyqtgraph, peak down-sampling": Theirs(values)}
    for side in sides.values():
        side.widget.resize(SIZE)
        side.widget.show()
    found: dict[str, list[Frame]] = {name: [] for name in sides}
    for place in range(SAMPLES, SAMPLES + frames + 10):
        for name, side in sides.items():
            found[name].append(frame(application, side.draw, place))
    for side in sides.values():
        side.widget.close()
    return {name: taken[10:] for name, taken in found.items()}  # the first ones lay out and fill caches


def main() -> None:
    """Prints one line a side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=100)
    for name, taken in measure(parser.parse_args().frames).items():
        wall, cpu = [f.wall_ms for f in taken], [f.cpu_ms for f in taken]
        slowest = sorted(wall)[len(wall) * 95 // 100]
        print(
            f"{name:32s} {statistics.median(wall):6.1f} ms a frame (95 % within {slowest:.1f} ms), "
            f"{statistics.median(cpu):.1f} ms of the processor"
        )


if __name__ == "__main__":
    main()
