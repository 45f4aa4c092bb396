"""How long the desktop app takes to its first frame, to show a model, from page to page, and to another theme.

Each run is a separate process, interleaved with an empty Qt window. Other work on the machine only adds: the best
wall time counts, and the CPU seconds beside it (of the app and of the children that have ended by then).

python benchmarks/app_start.py [MODEL] [--rounds 5] [--packaged dist/edgeopt-desktop]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BARE = """
import json, os, time
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QMainWindow
class Window(QMainWindow):
    def paintEvent(self, event):
        print(json.dumps(["first frame", time.time(), sum(os.times()[:4])]), flush=True)
        QTimer.singleShot(0, self.close)
application = QApplication([])
window = Window()
window.show()
application.exec()
"""

# What the app's own main does, with a stamp at the first frame; `after` says what follows it.
_APP = """
import json, os, sys, time
from PySide6.QtCore import QCoreApplication, QTimer
from edgeopt_gui import main
from edgeopt_gui.window import Window
painted, paint = [], Window.paintEvent
def stamp(what):
    print(json.dumps([what, time.time(), sum(os.times()[:4])]), flush=True)
def first_frame(window, event):
    paint(window, event)
    if not painted:
        painted.append(window)
        stamp("first frame")
        QTimer.singleShot(0, lambda: after(window))
Window.paintEvent = first_frame
"""
STARTED = (
    _APP
    + """
def after(window):
    window.quit_now()
sys.exit(main.main([]))
"""
)
OPENED = (
    _APP
    + """
def after(window):
    def look():
        page = window.page("model")
        if page.state == "error":
            sys.exit("the model cannot be read")
        if "summary" not in seen and page.state == "content":
            seen.add("summary")
            window.repaint()
            stamp("summary")
        if page.analysis is not None and page.analysis.opportunities:
            window.repaint()
            stamp("opportunities")
            window.quit_now()
            timer.stop()
    seen, timer = set(), QTimer(window)
    timer.timeout.connect(look)
    timer.start(5)
sys.exit(main.main([sys.argv[1]]))
"""
)
# What the programs below share: the time until widgets are painted, and all pages made in idle steps.
_PAINTS = (
    _APP
    + """
from PySide6.QtCore import QEvent, QObject
from edgeopt_gui.pages import PAGES
keys = [entry.key for entry in PAGES]
class Paints(QObject):
    def __init__(self):
        super().__init__()
        self.at = {}
    def eventFilter(self, widget, event):
        if event.type() == QEvent.Type.Paint:
            self.at.setdefault(widget, (time.perf_counter(), time.process_time()))
        return False
def timed(act, *find):
    paints = Paints()
    begin = time.perf_counter(), time.process_time()
    act()
    widgets = [each() for each in find]
    for widget in widgets:
        widget.installEventFilter(paints)
    while len(paints.at) < len(widgets):
        QCoreApplication.processEvents()
    for widget in widgets:
        widget.removeEventFilter(paints)
    return [max(ends) - start for start, ends in zip(begin, zip(*paints.at.values()))]
def switch(window, key):
    return timed(lambda: window.show_page(key), lambda: window.page(key))
def report(what, figures):
    print(json.dumps([what, figures]), flush=True)
def timed_steps(name):
    make, steps = getattr(Window, name), []
    def step(window):
        begin = time.perf_counter(), time.process_time()
        make(window)
        steps.append([time.perf_counter() - begin[0], time.process_time() - begin[1]])
    setattr(Window, name, step)
    return steps
def longest(steps):
    return [max(column) for column in zip(*steps)]
def all_made(window):
    while window._steps.gi_frame is not None or window.page("live").view is None:
        QCoreApplication.processEvents()
"""
)
# The pages are made while the app is idle, and then visited.
MADE = (
    _PAINTS
    + """
steps = timed_steps("make_one_more")
def after(window):
    all_made(window)
    visits = {key: switch(window, key) for key in keys[1:]}
    report("page switch, first visit when made", {**visits, "longest step of making": longest(steps)})
    window.quit_now()
sys.exit(main.main([]))
"""
)
# No page is made while the app is idle: each is made when the user chooses it.
SWITCHED = (
    _PAINTS
    + """
steps = timed_steps("_come")
Window.make_one_more = lambda window: None
def after(window):
    frames, whole, longest_steps = {}, {}, {}
    for key in keys:
        if key in window._pages:
            continue
        begin = time.perf_counter(), time.process_time()
        frames[key] = timed(lambda: window.visit(key), lambda: window._blank, lambda: window.header)
        while window._coming:
            QCoreApplication.processEvents()
        timed(lambda: None, lambda: window.page(key))
        whole[key] = [time.perf_counter() - begin[0], time.process_time() - begin[1]]
        longest_steps[key] = longest(steps)
        steps.clear()
    report("page switch, first visit, title and frame", frames)
    report("page switch, first visit, longest step of making", longest_steps)
    report("page switch, first visit, until all is there", whole)
    pairs = {}
    for old in keys:
        for new in keys:
            if old != new:
                switch(window, old)
                pairs[f"{old} → {new}"] = switch(window, new)
    report("page switch, again", pairs)
    window.quit_now()
sys.exit(main.main([]))
"""
)
# Another theme with all pages made and the sample open, then each page shown before it was styled in idle time.
THEMES = (
    _PAINTS
    + """
def after(window):
    all_made(window)
    window.open_sample()
    while window.context.jobs.jobs or window.page("model").state != "content":
        QCoreApplication.processEvents()
    for key in keys:
        switch(window, key)
    window.show_page("model")
    def change(theme):
        keep = lambda: window.context.settings.keep("theme", theme)
        return timed(keep, lambda: window.page("model"), lambda: window.header, lambda: window.rail)
    window.context.settings.keep("theme", "light")
    def undressed():
        return any(page.styleSheet() != window.header.styleSheet() for page in window._pages.values())
    changes = {"first": change("dark")}
    while undressed():
        QCoreApplication.processEvents()
    changes["again"] = change("light")
    report("another theme", changes)
    shown = {}
    for number, key in enumerate(key for key in keys if key != "model"):
        window.show_page("model")
        while undressed():
            QCoreApplication.processEvents()
        change("light" if number % 2 else "dark")
        shown[key] = switch(window, key)
    report("page switch right after another theme", shown)
    window.quit_now()
sys.exit(main.main([]))
"""
)


def main() -> None:
    """Prints a table: the best wall time and the least CPU time of all rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--packaged", type=Path, help="folder of `make desktop`: its first frame too, interleaved")
    given = parser.parse_args()
    taken: dict[str, list[tuple[float, float]]] = {}
    for number in range(given.rounds + 1):
        # Once before, so that the first round finds the same caches as the others.
        for name, wall_s, cpu_s in _round(given.model, given.packaged):
            if number:
                taken.setdefault(name, []).append((wall_s, cpu_s))
    print(f"{'':44s} {'wall':>8s} {'CPU':>8s}   (least of {given.rounds})")
    for name, times in taken.items():
        wall_s, cpu_s = (min(column) for column in zip(*times, strict=True))
        print(f"{name:44s} {wall_s * 1e3:5.0f} ms {cpu_s * 1e3:5.0f} ms")


def _round(model: Path | None, packaged: Path | None) -> list[tuple[str, float, float]]:
    found = [(f"an empty Qt window: {name}", wall_s, cpu_s) for name, wall_s, cpu_s in _run(BARE)]
    found += [(f"edgeopt-gui: {name}", wall_s, cpu_s) for name, wall_s, cpu_s in _run(STARTED)]
    if packaged is not None:
        program = str(packaged / "edgeopt-run")
        found += [(f"packaged: {name}", wall_s, cpu_s) for name, wall_s, cpu_s in _run(STARTED, python=program)]
    if model is not None:
        found += [(f"{model.name}: {name}", wall_s, cpu_s) for name, wall_s, cpu_s in _run(OPENED, str(model))]
    return found + [each for program in (MADE, SWITCHED, THEMES) for each in _run(program)[1:]]


def _run(program: str, *arguments: str, python: str = sys.executable) -> list[tuple[str, float, float]]:
    # No PYTHONDONTWRITEBYTECODE: with it, each process compiles what it imports, which users' do not.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment.setdefault("QT_QPA_PLATFORM", "offscreen")
    command = [python, "-c", program, *arguments]
    with tempfile.TemporaryDirectory() as settings:  # a new one: the app begins with the page of the last time
        environment["XDG_CONFIG_HOME"] = settings
        begin = time.time()
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    found: list[tuple[str, float, float]] = []
    for what, *figures in map(json.loads, done.stdout.splitlines()):
        if isinstance(figures[0], dict):
            found += [(f"{what}: {pair}", *times) for pair, times in figures[0].items()]
        else:
            found.append((what, figures[0] - begin, figures[1]))
    return found


if __name__ == "__main__":
    main()
