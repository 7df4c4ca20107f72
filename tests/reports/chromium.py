"""Chromium without a library: DevTools commands over a pipe, one browser for all tests."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --remote-debugging-pipe"
)
# Chromium reads commands from 3 and answers to 4.
_START = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)


class Browser:
    """A running Chromium. Messages end in a zero byte."""

    def __init__(self, folder):
        (read, commands), (answers, write) = os.pipe(), os.pipe()
        ends = [os.dup(read), os.dup(write)]  # above 4, so that no copy closes the other
        flags = [*_FLAGS.split(), f"--user-data-dir={folder}", "about:blank"]
        command = [sys.executable, "-c", _START, *map(str, ends), PROGRAM, *flags]
        self.process = subprocess.Popen(command, pass_fds=ends, stderr=subprocess.DEVNULL)
        for end in (read, write, *ends):
            os.close(end)
        self.commands, self.answers = os.fdopen(commands, "wb"), os.fdopen(answers, "rb")
        self.numbers, self.events = itertools.count(1), []

    def send(self, method, session=None, **params):
        """The result of a command; events that come before it are kept."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        self.commands.write(json.dumps(message).encode() + b"\0")
        self.commands.flush()
        while True:
            found = self._next()
            if found.get("id") == number:
                assert "error" not in found, found["error"]
                return found["result"]
            self.events.append(found)

    def _next(self):
        parts = []
        while (byte := self.answers.read(1)) != b"\0":
            assert byte, "the browser ended"
            parts.append(byte)
        return json.loads(b"".join(parts))

    def wait(self, method, session):
        """The next event of this name."""
        while True:
            for place, event in enumerate(self.events):
                if event["method"] == method and event.get("sessionId") == session:
                    return self.events.pop(place)["params"]
            self.events.append(self._next())

    def open(self, address, width=1400, height=900):
        """A new page of this address, loaded, in a window of this size."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        page = Page(self, target, self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        page.send("Page.enable")
        page.send("Runtime.enable")
        page.resize(width, height)
        page.go(address)
        return page

    def close(self):
        self.send("Browser.close")
        self.commands.close()
        self.answers.close()
        self.process.wait()


class Page:
    """A page in the browser."""

    def __init__(self, browser, target, session):
        self.browser, self.target, self.session = browser, target, session

    def send(self, method, **params):
        return self.browser.send(method, self.session, **params)

    def go(self, address):
        self.send("Page.navigate", url=address)
        self.browser.wait("Page.loadEventFired", self.session)

    def reload(self):
        self.send("Page.reload")
        self.browser.wait("Page.loadEventFired", self.session)

    def resize(self, width, height=900):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def media(self, **features):
        """Sets media features, such as prefers_color_scheme="dark"."""
        given = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.send("Emulation.setEmulatedMedia", features=given)

    def run(self, script):
        """What a script, the body of a function that may await, returns; no error may have happened in the page."""
        wrapped = f"(async () => {{\n{script}\n}})()"
        found = self.send("Runtime.evaluate", expression=wrapped, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]["exception"].get("description")
        assert self.faults() == []
        return found["result"].get("value")

    def faults(self):
        """Errors that no script of the page has caught."""
        thrown = [e["params"] for e in self.browser.events if e["method"] == "Runtime.exceptionThrown"]
        return [fault["exceptionDetails"].get("exception", {}).get("description", "?") for fault in thrown]

    def picture(self, path):
        """Writes the window as PNG."""
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        self.browser.send("Target.closeTarget", targetId=self.target)
        self.browser.events = [e for e in self.browser.events if e.get("sessionId") != self.session]
