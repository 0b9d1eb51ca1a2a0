"""Installs the pinned requirements into the environment that runs this file; what fails is noted and left out.

    python install.py requirements.txt

All at once if that works, else pin by pin, so that one library that does not build here costs only itself. The reasons
go to `failures.json` in the environment, where the benchmark finds them.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

FAILURES = Path(sys.prefix) / "failures.json"
PIP = (
    sys.executable,
    "-m",
    "pip",
    "install",
    "--quiet",
    "--disable-pip-version-check",
    "--retries=1",
    "--no-deps",
    "--require-hashes",
)


def fault(requirements: Path) -> str | None:
    """Install a file of requirements; what went wrong, or None."""
    run = subprocess.run([*PIP, "--requirement", str(requirements)], capture_output=True, text=True)
    if run.returncode == 0:
        return None
    errors = [line for line in run.stderr.splitlines() if line.lower().lstrip(" ×╰─>").startswith("error")]
    return (errors or ["pip failed without a word"])[-1].strip()


def main() -> None:
    requirements, failures = Path(sys.argv[1]), {}
    if fault(requirements) is not None:
        pins = requirements.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
        with tempfile.TemporaryDirectory() as folder:
            for pin in pins:
                one = Path(folder) / "one.txt"
                one.write_text(pin, encoding="utf-8")
                reason = fault(one)
                if reason is not None:
                    failures[pin.split("==")[0]] = reason
    FAILURES.write_text(json.dumps(failures, indent=1), encoding="utf-8")
    for name, reason in failures.items():
        print(f"{name} is left out: {reason}")


if __name__ == "__main__":
    main()
