"""A program that answers as `edgeopt optimize`, `bench` and `probe` do, after a stated time and without measuring.

FAKE_LAB names a folder. It answers with `bundle.edgeopt`, `outcome.json`, `bench.json` and `device.json` there;
`seconds.json` has the time of each model, `gone/HOST` is there while a device is away, `hold/HOST` while its
searches and comparisons are not to end, and `log.jsonl` gets a line for each of them with its begin and end.
`bench-MODEL-HOST.json` is the answer for one cell, and `bundle-MODEL.edgeopt` the bundle of one model. With
FAKE_LAB_BENCH=real, edgeopt itself measures.
"""

# ruff: noqa: T201 - a program that prints

import json
import os
import shutil
import sys
import threading
import time
from pathlib import Path

FOLDER = Path(os.environ["FAKE_LAB"])


def end_with_parent():
    while os.read(0, 4096):
        pass
    os._exit(143)


def answer(event, **fields):
    print(json.dumps({"event": event, "schema": 1, **fields}), flush=True)


def content(name):
    return json.loads((FOLDER / name).read_text())


def work(seconds, device, *, can_hold=True):
    end = time.time() + seconds
    while time.time() < end or (can_hold and (FOLDER / "hold" / device).exists()):
        if (FOLDER / "gone" / device).exists():
            answer("error", code="missing", message=f"'{device}' does not answer.", hint="Start it.")
            sys.exit(5)
        time.sleep(0.02)


def first_of(*names):
    return next(name for name in names if (FOLDER / name).exists())


def main():
    command, *arguments = sys.argv[1:]
    place = arguments.index("--on")
    on = arguments[place + 1].removeprefix("ssh://")
    if command == "bench" and os.environ.get("FAKE_LAB_BENCH") == "real":
        words = ["-m", "edgeopt.cli.attached", command, *arguments[:place], *arguments[place + 2 :]]
        os.execv(sys.executable, [sys.executable, *words])  # noqa: S606 - the arguments are those of the lab
    begin = time.time()
    if command == "probe":
        work(0.01, on, can_hold=False)
        return answer("result", kind="probe", data=content("device.json"))
    file = Path(arguments[0])
    model = file.name.partition(".")[0] if command == "optimize" else file.parent.name
    answer("progress", phase="racing", message=model)
    work(content("seconds.json").get(model, 0.1) if command == "optimize" else 0.05, on)
    if command == "optimize":
        out = arguments[arguments.index("-o") + 1]
        shutil.copytree(FOLDER / first_of(f"bundle-{model}.edgeopt", "bundle.edgeopt"), out, dirs_exist_ok=True)
        result = content("outcome.json")
    else:
        out, result = "", content(first_of(f"bench-{model}-{on}.json", "bench.json"))
    with (FOLDER / "log.jsonl").open("a") as log:
        line = {
            "command": command,
            "model": model,
            "device": on,
            "file": str(file),
            "out": out,
            "begin_s": begin,
            "end_s": time.time(),
        }
        log.write(json.dumps(line) + "\n")
    return answer("result", kind=command, data=result)


if __name__ == "__main__":
    if os.environ.get("FAKE_LAB_BENCH") != "real":  # the thread would read what edgeopt waits for
        threading.Thread(target=end_with_parent, daemon=True).start()
    main()
