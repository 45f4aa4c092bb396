"""A headless Chromium that opens a page and tells what it complained about and asked for."""

import base64
import itertools
import json
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field

from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def found():
    """The program, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@dataclass
class Page:
    connection: object
    complaints: list = field(default_factory=list)
    requests: list = field(default_factory=list)
    numbers: itertools.count = field(default_factory=itertools.count)

    def ask(self, method, **params):
        number = next(self.numbers)
        self.connection.send(json.dumps({"id": number, "method": method, "params": params}))
        return self.until(lambda message: message.get("id") == number)["result"]

    def until(self, wanted):
        while True:
            message = json.loads(self.connection.recv(timeout=60))
            self.note(message)
            if wanted(message):
                return message

    def note(self, message):
        params = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Log.entryAdded":
                self.complaints.append(params["entry"]["text"])
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(params)[:300])

    def open(self, path, width=1200, theme="light"):
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.ask(f"{domain}.enable")
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.ask("Page.navigate", url=path.as_uri())
        self.until(lambda message: message.get("method") == "Page.loadEventFired")

    def value(self, expression):
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def screenshot(self, file):
        taken = self.ask("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        file.write_bytes(base64.b64decode(taken["data"]))


@contextmanager
def chromium(folder):
    """An empty page in a browser of its own, which ends with it."""
    command = [found(), "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
    command += [f"--user-data-dir={folder}", "--no-first-run", "--disable-background-networking", "about:blank"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        try:
            address = next(line for line in process.stderr if "listening on ws://" in line).split()[-1]
            with connect(address, max_size=None) as browser:
                browser.send('{"id": 0, "method": "Target.getTargets"}')
                targets = json.loads(browser.recv(timeout=60))["result"]["targetInfos"]
            page = next(each["targetId"] for each in targets if each["type"] == "page")
            base = address.rsplit("/devtools/", 1)[0]
            with connect(f"{base}/devtools/page/{page}", max_size=None) as connection:
                yield Page(connection)
        finally:
            process.kill()
