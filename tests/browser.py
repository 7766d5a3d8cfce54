"""Opens a page in headless Chromium, cut off from every network, and tells what became
of it.
"""

import base64
import json
import re
import subprocess
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
        probe, frame = self.folder / "asked.html", self.folder / "frame.html"
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
