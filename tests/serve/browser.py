"""A real browser and a real service for the tests of the dashboard and of the clients.

One browser process serves all tests; each test has a context of its own, which fails it if the page broke the content
security policy or wrote an error to the console.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run"),
]
AXE_VERSION = "4.10.3"


class Running:
    """A service in a process of its own, which can be stopped and started again at the same address."""

    def __init__(self, files: Path, data: Path, port: int) -> None:
        self._command = [sys.executable, "-m", "equipoise", "serve", str(files), "--data", str(data)]
        self._port, self._log = port, data.parent / "service.log"
        self.url = f"http://127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            command = [*self._command, "--port", str(self._port)]
            environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        for _ in range(600):
            try:
                with urlopen(f"{self.url}/healthz", timeout=5):
                    return
            except OSError:
                assert self._process.poll() is None, self._log.read_text()
                time.sleep(0.05)
        raise AssertionError(self._log.read_text())

    def reload(self) -> None:
        """Let it read its files again."""
        assert self._process is not None
        self._process.send_signal(1)  # SIGHUP

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
            self._process = None

    def kill(self) -> None:
        """End it without a warning (SIGKILL)."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(30)
        self._process = None


@contextmanager
def watched_page(browser: Any, **options: Any) -> Iterator[Any]:
    """A page in a fresh context; what went wrong in it is an error at the end, except what a test expects."""
    context = browser.new_context(**options)
    faults: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: faults.append(f"page error: {error}"))
    page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page.add_init_script(
        "addEventListener('securitypolicyviolation', (e) => console.error('CSP', e.violatedDirective))"
    )
    page.expected = []
    try:
        yield page
        unexpected = [fault for fault in faults if not any(each in fault for each in page.expected)]
        assert not unexpected, unexpected
    finally:
        context.close()


def axe_source() -> Path | None:
    """The file of axe-core, from npm into the build folder; None without npm or its registry."""
    folder = ROOT / "build" / "axe"
    file = folder / f"axe-{AXE_VERSION}.js"
    if file.exists():
        return file
    npm = shutil.which("npm")
    if npm is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    packed = subprocess.run(
        [npm, "pack", "--silent", f"axe-core@{AXE_VERSION}"], cwd=folder, capture_output=True, check=False, timeout=60
    )
    archive = folder / f"axe-core-{AXE_VERSION}.tgz"
    if packed.returncode or not archive.exists():
        return None
    with tarfile.open(archive) as content:
        source = content.extractfile("package/axe.min.js")
        assert source is not None
        temporary = folder / f"axe-{os.getpid()}.js"
        temporary.write_bytes(source.read())
    temporary.replace(file)
    return file
