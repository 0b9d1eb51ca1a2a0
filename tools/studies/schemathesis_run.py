"""Thousands of requests that schemathesis makes from the description of a running service.

    python -m tools.studies.schemathesis_run --examples 200 [--seed 1] [--show]

A service with a journal and a token of all scopes is started; the description that this token gets names the
portfolios, has requests as examples, and links. All checks of schemathesis run in all phases (examples, coverage,
fuzzing, sequences by links). Left out, because a schema cannot say it:

- `positive_data_acceptance`: rows must have equal lengths, names of features must be known, and the last learner stays;
- the streams of events: they do not end.

503 is no finding: it is the documented answer when all learners are suspended. 413 is a refusal like 422.

Cases are counted by the service: those that reached a portfolio are requests to a route of a portfolio that were not
answered with 401 or 404. The exit code is 1 after a finding, or if fewer than `--least` cases reached a portfolio.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from equipoise.serve.routes import OPERATIONS
from equipoise.serve.tokens import SCOPES, add_token

STREAMS = [each.id for each in OPERATIONS if each.media_type == "text/event-stream"]
OF_PORTFOLIOS = {each.id for each in OPERATIONS if "{name}" in each.path}
LEFT_OUT = "positive_data_acceptance"
HEAD = '\nversion = 1\n[reward]\nrange = [0, 1]\ndeadline = "1h"\ndefault = 0.0\n'
EXPECTED = """
[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 503]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 503]
"""
FILES = {
    "arms": '[[learner]]\nuse = "UCB"\narms = 3\n[[learner]]\nuse = "EpsilonGreedy"\narms = 3\nepsilon = 0.1\n',
    "flags": '[context.age]\ntype = "number"\n[context.device]\ntype = "category"\nvalues = ["phone", "desktop"]\n'
    '[context.user]\nvip = { type = "flag" }\nabout = { type = "text" }\n[actions]\nnames = ["red", "blue"]\n'
    '[[learner]]\nuse = "UCB"\narms = 2\n',
    "linear": '[actions.features]\nprice = { type = "number", low = 0, high = 9 }\n'
    'mood = { type = "vector", dim = 2 }\n'
    '[[learner]]\nuse = "OFUL"\n',
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=200, help="cases of an operation and phase, at most")
    parser.add_argument("--least", type=int, default=10_000, help="cases that have to reach a portfolio")
    parser.add_argument("--seconds", type=int, default=1_200, help="that schemathesis may take")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print what schemathesis prints")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "files").mkdir()
        for portfolio, text in FILES.items():
            (folder / "files" / f"{portfolio}.toml").write_text(f'name = "{portfolio}"{HEAD}{text}')
        data = folder / "data"
        data.mkdir(mode=0o700)
        secret = add_token(data / "tokens.json", "fuzzer", SCOPES)
        found, counts, output = run(folder, secret, options)
    if options.show or found:
        print(output)
    reached = sum(n for (operation, status), n in counts.items() if reaches(operation, status))
    errors = sum(n for (_, status), n in counts.items() if status == 500)
    findings = "some" if found else "none"
    print(f"{counts.total():,} cases, {reached:,} reached a portfolio, {errors} answers 500, findings: {findings}")
    for (operation, status), n in sorted(counts.items()):
        print(f"  {operation:16} {status} {n:7,}")
    sys.exit(found or errors > 0 or reached < options.least)


def reaches(operation: str, status: int) -> bool:
    return operation in OF_PORTFOLIOS and status not in (401, 404)


def run(folder: Path, secret: str, options: argparse.Namespace) -> tuple[bool, Counter[tuple[str, int]], str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    command = [sys.executable, "-m", "equipoise", "serve", str(folder / "files"), "--data", str(folder / "data")]
    with (folder / "log").open("wb") as log:
        service = subprocess.Popen([*command, "--port", url.rpartition(":")[2]], stderr=log)
    try:
        counts_of(url, secret)  # waits for the start
        checks = ["--checks", "all", "--exclude-checks", LEFT_OUT, "--continue-on-failure", "--no-color"]
        streams = [part for id_ in STREAMS for part in ("--exclude-operation-id", id_)]
        (folder / "schemathesis.toml").write_text(EXPECTED)
        limits = ["--max-examples", str(options.examples), "--max-time", str(options.seconds)]
        limits += ["--seed", str(options.seed), "--workers", "1", "--warnings", "off"]
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json"]
        header = ["--header", f"Authorization: Bearer {secret}", "--suppress-health-check", "all"]
        done = subprocess.run(
            [*command, *header, *checks, *streams, *limits], cwd=folder, capture_output=True, text=True, check=False
        )
        return done.returncode != 0, counts_of(url, secret), done.stdout + done.stderr
    finally:
        service.terminate()
        service.wait(60)


def counts_of(url: str, secret: str) -> Counter[tuple[str, int]]:
    """The requests that the service counted, by operation and status."""
    request = Request(f"{url}/metrics", headers={"Authorization": f"Bearer {secret}"})
    for _ in range(600):
        try:
            with urlopen(request) as answer:
                text = answer.read().decode()
            break
        except URLError:
            time.sleep(0.1)
    else:
        raise SystemExit("the service does not answer")
    rows = re.findall(r'equipoise_requests_total{operation="(\w+)",status="(\d+)"} (\S+)', text)
    return Counter({(operation, int(status)): round(float(number)) for operation, status, number in rows})


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
