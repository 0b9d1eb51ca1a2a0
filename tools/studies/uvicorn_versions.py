"""Do the tests of connections pass with each version of uvicorn that may be installed?

    python -m tools.studies.uvicorn_versions

Each version that the package index has, within the bounds of `pyproject.toml`, is installed into a folder of its own,
and the tests run with it. The exit code is 1 if one fails. `Connection` builds on a class that is not public, so raise
the upper bound only after this.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
TESTS = ("tests/serve/test_connections.py", "tests/serve/test_limits.py", "tests/serve/test_streams.py")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def requirement() -> Requirement:
    """Return what the package requires of uvicorn."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (found,) = (Requirement(text) for text in extras["serve"] if text.startswith("uvicorn"))
    return found


def versions() -> list[str]:
    """Return the versions within the bounds, the oldest first."""
    command = [*PIP, "index", "versions", "uvicorn"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    (line,) = (line for line in lines if line.startswith("Available versions:"))
    listed = line.partition(":")[2].replace(" ", "").split(",")
    return [*requirement().specifier.filter(reversed(listed))]


def passes(version: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        command = [*PIP, "install", "--quiet", "--no-deps", "--target", folder, f"uvicorn=={version}"]
        subprocess.run(command, check=True)
        tests = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *TESTS]
        paths = {"PYTHONPATH": os.pathsep.join((folder, str(ROOT)))}
        run = subprocess.run(tests, cwd=ROOT, env={**os.environ, **paths}, capture_output=True, text=True, check=False)
    print(f"{version}: {run.stdout.splitlines()[-1]}", flush=True)
    return run.returncode == 0


def main() -> None:
    sys.exit(0 if all([passes(version) for version in versions()]) else 1)


if __name__ == "__main__":
    main()
