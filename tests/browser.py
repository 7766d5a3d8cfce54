"""Opens a page in headless Chromium, cut off from every network, and tells what became
of it.
"""

import base64
import json
import os
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import needs

_ALONE = (
    *(
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--hide-scrollbars",
    ),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-default-apps",
    ),
    *(
        "--disable-extensions",
        "--disable-sync",
        "--host-resolver-rules=MAP * ~NOTFOUND",
    ),
    "--enable-logging=stderr",
)
DESK = (1280, 900)
_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')


@dataclass(frozen=True)
class Browser:
    """Chromium with a profile of its own in `folder`."""

    folder: Path

    def screenshot(
        self, page: Path, name: str, size: tuple[int, int], *, dark: bool = False
    ) -> Path:
        """A picture of the top of the page in a window of `size`; in the light or the
        dark theme.
        """
        path = self.folder / name
        theme = (
            ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")
            if dark
            else ()
        )
        self._run(page, size, f"--screenshot={path}", *theme)
        return path

    def complaints(self, page: Path) -> list[str]:
        """Return what the browser wrote to its console while it opened the page:
        errors, refused requests.
        """
        return [
            line
            for line in self._run(page, DESK, "--dump-dom").stderr.splitlines()
            if ":CONSOLE" in line
        ]

    def ask(self, page: Path, script: str, size: tuple[int, int]) -> Any:
        """Evaluate a JavaScript expression once the page is laid out in a frame of
        `size`.

        It runs in a copy without the page's policy, which would forbid it; a frame,
        since a window of Chromium is never as narrow as a telephone.
        """
        tell = (
            f"<script>addEventListener('load', () => parent.postMessage({script},"
            " '*'))</script></body>"
        )
        probe = self.folder / "asked.html"
        frame = self.folder / "frame.html"
        probe.write_text(_POLICY.sub("", page.read_text()).replace("</body>", tell))
        frame.write_text(
            "<!DOCTYPE html><body><script>"
            "onmessage = told => document.body.dataset.told ="
            " btoa(JSON.stringify(told.data))</script>"
            f'<iframe src="asked.html" width="{size[0]}" height="{size[1]}"'
            ' style="border: 0"></iframe>'
        )
        dom = self._run(frame, DESK, "--dump-dom", "--virtual-time-budget=10000").stdout
        match = re.search(r'<body data-told="([^"]*)"', dom)
        assert match, dom[:500]
        return json.loads(base64.b64decode(match[1]))

    def _run(
        self, page: Path, size: tuple[int, int], *options: str
    ) -> subprocess.CompletedProcess[str]:
        command = [
            needs.program("chromium", "chromium"),
            *_ALONE,
            f"--user-data-dir={self.folder / 'profile'}",
            f"--window-size={size[0]},{size[1]}",
            *options,
            page.as_uri(),
        ]
        return subprocess.run(command, capture_output=True, text=True, check=True)


class Tab:
    """A page in Chromium, its policy in force, that a test points at, taps and types
    into by the devtools protocol.

    Messages go through two pipes, each ended by a NUL, so that no port is open.
    complaints: what the page wrote to the console, what it threw, what was refused.
    """

    def __init__(self, folder: Path, *, dark: bool = False) -> None:
        self.complaints: list[str] = []
        self._last = 0
        self._session = ""
        commands, self._write = os.pipe()
        self._read, answers = os.pipe()
        self._buffer = b""
        # the devtools pipes are descriptors 3 and 4 of the browser
        script = f'exec "$0" "$@" 3<&{commands} 4>&{answers}'
        chromium = needs.program("chromium", "chromium")
        profile = f"--user-data-dir={folder / 'profile-of-tabs'}"
        self._process = subprocess.Popen(
            [
                *("bash", "-c", script, chromium, *_ALONE[:-1], profile),
                "--remote-debugging-pipe",
            ],
            pass_fds=(commands, answers),
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        self.show("screen", dark=dark)

    def __enter__(self) -> "Tab":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._write)  # which ends the browser
        os.close(self._read)
        self._process.wait()

    def open(
        self,
        page: Path,
        size: tuple[int, int],
        *,
        touch: bool = False,
        scripts: bool = True,
    ) -> None:
        """Open a page in a window of `size` and, if its scripts run, wait until its
        maps answer.
        """
        width, height = size
        self._call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=touch,
        )
        self._call("Emulation.setTouchEmulationEnabled", enabled=touch)
        self._call("Page.navigate", url=page.as_uri())
        self.wait_for("document.readyState === 'complete'")
        if scripts:
            self.wait_for("!document.querySelector('[data-map]')")

    def show(self, medium: str, *, dark: bool = False) -> None:
        """Show pages as on a "screen" or in "print", in the light or dark theme."""
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", media=medium, features=[theme])

    def ask(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        answer = self._call(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
            userGesture=True,
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Wait until a JavaScript expression is true."""
        while not self.ask(condition):
            time.sleep(0.02)

    def point(self, x: float, y: float) -> None:
        """Move the pointer to a place in the window."""
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x: float, y: float) -> None:
        """Press and release the mouse at a place in the window."""
        self.point(x, y)
        button = {"x": x, "y": y, "button": "left", "clickCount": 1}
        self._call("Input.dispatchMouseEvent", type="mousePressed", **button)
        self._call("Input.dispatchMouseEvent", type="mouseReleased", **button)

    def tap(self, x: float, y: float) -> None:
        """Tap a place in the window with a finger."""
        where = [{"x": x, "y": y}]
        self._call("Input.dispatchTouchEvent", type="touchStart", touchPoints=where)
        self._call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def press(self, *keys: str) -> None:
        """Press and release keys, such as "ArrowDown"."""
        for key in keys:
            for kind in ("keyDown", "keyUp"):
                self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def count_cpu_time(self) -> None:
        """Count the CPU time of pages from now on."""
        self._call("Performance.enable", timeDomain="threadTicks")

    def read_cpu_time(self) -> dict[str, float]:
        """Return the CPU seconds of the page's main thread by what it did."""
        metrics = self._call("Performance.getMetrics")["metrics"]
        return {metric["name"]: metric["value"] for metric in metrics}

    def screenshot(self, path: Path, *, whole: bool = False) -> Path:
        """Write a picture of the window, or of the whole page."""
        shot = self._call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
        return path

    def print(self, path: Path) -> Path:
        """Write the page as it is printed, as PDF."""
        printed = self._call("Page.printToPDF", preferCSSPageSize=True)
        path.write_bytes(base64.b64decode(printed["data"]))
        return path

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; note complaints that come before."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = json.loads(self._receive())
            if answer.get("id") == self._last:
                assert "error" not in answer, (method, answer)
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _receive(self) -> bytes:
        while b"\0" not in self._buffer:
            more = os.read(self._read, 1 << 16)
            assert more, "the browser has ended"
            self._buffer += more
        message, _, self._buffer = self._buffer.partition(b"\0")
        return message

    def _note(self, event: dict[str, Any]) -> None:
        about = {
            "Runtime.consoleAPICalled": "args",
            "Runtime.exceptionThrown": "exceptionDetails",
            "Log.entryAdded": "entry",
        }
        key = about.get(event.get("method", ""))
        if key:
            self.complaints.append(json.dumps(event["params"][key]))
