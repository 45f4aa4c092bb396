"""How long the desktop app takes to its first frame, from the start of its process, in turns with bare Qt.

python benchmarks/gui_startup.py [--rounds 10]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

# What the app's own main does, and the moment in which the window is painted for the first time.
APP = """
import sys, time
from edgeopt_gui import main
from edgeopt_gui.window import Window
frames = []
def first_frame(window, event):
    frames.append(time.time())
    if len(frames) == 1:
        print(frames[0], flush=True)
        from PySide6.QtCore import QTimer
        QTimer.singleShot(0, window.quit_now)
Window.paintEvent = first_frame
sys.exit(main.main([]))
"""
BARE = """
import time
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QMainWindow
class Window(QMainWindow):
    def paintEvent(self, event):
        print(time.time(), flush=True)
        QTimer.singleShot(0, self.close)
application = QApplication([])
window = Window()
window.show()
application.exec()
"""
PROGRAMS = {"an empty Qt window": BARE, "edgeopt-gui": APP}


def main() -> None:
    """Prints one line a program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    taken: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    with tempfile.TemporaryDirectory() as settings:
        for program in PROGRAMS.values():
            _run(program, settings)  # once before, so that the first round finds the same caches as the others
        for _ in range(rounds):
            for name, program in PROGRAMS.items():
                taken[name].append(_run(program, settings))
    for name, times in taken.items():
        worst, median = max(times), statistics.median(times)
        print(f"{name:20s} {median * 1e3:6.0f} ms at the median, {worst * 1e3:.0f} ms at worst")


def _run(program: str, settings: str) -> float:
    environment = {**os.environ, "XDG_CONFIG_HOME": settings}
    environment.setdefault("QT_QPA_PLATFORM", "offscreen")
    begin = time.time()
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True, env=environment
    )
    return float(done.stdout.split()[0]) - begin


if __name__ == "__main__":
    main()
