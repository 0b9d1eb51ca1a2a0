"""Whether connections behave under each version of uvicorn: `python -m tools.studies.uvicorn_versions [VERSION ...]`.

`equipoise/serve/connection.py` derives from `HttpToolsProtocol`, which is not public. This installs each version into a
folder of its own and runs the tests of connections, limits and streams with it. Without arguments it takes the lower
bound of `pyproject.toml`, the newest version below the upper bound, and some between.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
VERSIONS = ("0.34.0", "0.38.0", "0.42.0", "0.46.0", "0.50.0", "0.54.0")  # from the first allowed to the last
TESTS = ("tests/serve/test_connections.py", "tests/serve/test_limits.py", "tests/serve/test_streams.py")


def passes(version: str, folder: Path) -> bool:
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    subprocess.run([*install, f"uvicorn=={version}"], check=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}
    shown = subprocess.run(
        [sys.executable, "-c", "import uvicorn; print(uvicorn.__version__)"],
        **{"env": environment, "capture_output": True, "text": True, "check": True},
    ).stdout.strip()
    if shown != version:
        raise SystemExit(f"uvicorn {shown} was imported, and not {version}")
    return not subprocess.run([sys.executable, "-m", "pytest", "-q", *TESTS], cwd=ROOT, env=environment).returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", default=VERSIONS, metavar="VERSION")
    failed = []
    for version in parser.parse_args().versions:
        with tempfile.TemporaryDirectory() as folder:
            good = passes(version, Path(folder))
        print(f"uvicorn {version}: {'passes' if good else 'FAILS'}", flush=True)
        failed += [] if good else [version]
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
