"""Load on the service: CPU time per decision with its reward, decisions per second and latency.

    python -m tools.studies.serve_load --seconds 10 [--selector RealizedBalancing --selector CounterfactualBalancing]

Processes one after the other in the same run, under the same load of wrk with 32 connections: a bare Starlette route
that decodes the same requests, the service in memory, and the service with its journal, for each selector. Three OFUL
learners under the recommended selector (or those that --selector names), 8 offers of 16 features; the load generator
sends the rewards of every 100 decisions as a batch of lines. CPU time is that of the server's process, all threads;
wall-clock figures depend on what else the machine does, so that is measured too.

On two idle cores, 10 seconds each, the median of three runs by CPU time:

| server | CPU us per decision with its reward | ratio | decisions per second | p50 ms | p99 ms |
|---|---|---|---|---|---|
| bare route | 56 | 1 | 17,792 | 1.7 | 3.5 |
| in memory, RealizedBalancing | 183 | 3.3 | 5,446 | 4.8 | 12 |
| durable, RealizedBalancing | 179 | 3.2 | 5,425 | 4.4 | 64 |
| in memory, CounterfactualBalancing | 267 | 4.8 | 3,733 | 6.4 | 19 |
| durable, CounterfactualBalancing | 296 | 5.3 | 3,311 | 6.2 | 223 |

Durable runs depend on the disk: with CounterfactualBalancing five others had 236 to 260 us and a p99 of 17 to 18 ms,
where no flush took long, and three medians of three had 262 to 296 us and a p99 of 150 to 310 ms.
CounterfactualBalancing runs with shared data and greedy experts, as `for_learners` makes it for learners that
share their data: three proposals and three updates a round in place of one.

CPU time per request rises with what else runs on the machine, by half and more for the bare route; ratios within one
run are steadier.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

PORT, CONNECTIONS, OFFERS, FEATURES, BATCH = 8765, 32, 8, 16, 100
WARM_UP = 2  # seconds; one run of load, because ids at its end are never rewarded
TICKS = os.sysconf("SC_CLK_TCK")

CONFIG = """
version = 1
name = "load"
[[learner]]
use = "OFUL"
features = { use = "Prefix", dim = 4 }
[[learner]]
use = "OFUL"
features = { use = "Prefix", dim = 8 }
[[learner]]
use = "OFUL"
features = { use = "Prefix", dim = 16 }
"""

BARE = """
import sys
import msgspec, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from equipoise.serve.schemas import Decided, DecideRequest

decode, count = msgspec.json.Decoder(DecideRequest).decode, 0

async def decide(request):
    global count
    decode(await request.body())
    count += 1
    answer = Decided(f"0123456789abcdef-{count}", 0, None, "OFUL", 1.0, 1.0, 1.0)
    return Response(msgspec.json.encode(answer), media_type="application/json")

async def rewards(request):
    lines = (await request.body()).splitlines()
    return Response(b"\\n".join(lines), media_type="application/x-ndjson")

async def ready(request):
    return Response(msgspec.json.encode({"health": {"rounds": count}}))

path = "/v1/portfolios/load"
routes = [Route(path + "/decide", decide, methods=["POST"]), Route(path + "/rewards", rewards, methods=["POST"]),
          Route("/readyz", ready), Route(path, ready)]
uvicorn.run(Starlette(routes=routes), port=int(sys.argv[1]), log_level="error", access_log=False, loop="uvloop")
"""

SCRIPT = """
local ids, n, rewarded = {}, 0, 0
local json, lines = {["content-type"] = "application/json"}, {["content-type"] = "application/x-ndjson"}
local bodies = {}
function init(args)
  math.randomseed(7)
  for k = 1, 64 do
    local offers = {}
    for a = 1, OFFERS do
      local row = {}
      for j = 1, FEATURES do row[j] = string.format("%.6f", math.random() / 4) end
      offers[a] = '{"features":[' .. table.concat(row, ",") .. ']}'
    end
    bodies[k] = '{"offers":[' .. table.concat(offers, ",") .. ']}'
  end
end
local turn = 0
function request()
  if n >= BATCH then
    local out = {}
    for k = 1, n do out[k] = '{"id":"' .. ids[k] .. '","reward":' .. (math.random() < 0.5 and 1 or 0) .. '}' end
    ids, n = {}, 0
    return wrk.format("POST", "/v1/portfolios/load/rewards", lines, table.concat(out, "\\n"))
  end
  turn = turn % 64 + 1
  return wrk.format("POST", "/v1/portfolios/load/decide", json, bodies[turn])
end
function response(status, headers, body)
  local id = string.match(body, '^{"id":"([^"]+)","action"')
  if id then n = n + 1; ids[n] = id end
end
"""


class Result(NamedTuple):
    """What one server did under load."""

    server: str
    decisions: int
    errors: int
    cpu_microseconds: float  # per decision with its reward
    per_second: float
    p50_milliseconds: float
    p99_milliseconds: float
    busy_cores_of_others: float


def cpu_seconds(pid: int) -> float:
    """CPU time of a process, all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def machine_seconds() -> float:
    """CPU time of everything on the machine."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:])
    return (user + nice + system + irq + softirq) / TICKS


def milliseconds(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()  # type: ignore[union-attr]  # as wrk prints
    return float(number) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[unit]


def write_script(folder: Path) -> Path:
    """What wrk sends."""
    script = folder / "load.lua"
    values = {"OFFERS": OFFERS, "FEATURES": FEATURES, "BATCH": BATCH}
    script.write_text("".join(f"local {key} = {value}\n" for key, value in values.items()) + SCRIPT)
    return script


def run(name: str, command: Sequence[str], folder: Path, seconds: int) -> Result:
    """Start a server, put load on it, and stop it."""
    script = write_script(folder)
    with (folder / f"{name}.log").open("wb") as log:
        server = subprocess.Popen([sys.executable, *command], stdout=log, stderr=log, env={**os.environ, **ONE_THREAD})
    try:
        wait_until_ready()
        load = start_wrk(script, seconds + WARM_UP + 1)
        time.sleep(WARM_UP)
        rounds, since = rounds_decided(), time.perf_counter()
        before, machine = cpu_seconds(server.pid), machine_seconds()
        time.sleep(seconds)
        cpu, others = cpu_seconds(server.pid) - before, machine_seconds() - machine
        decisions, elapsed = rounds_decided() - rounds, time.perf_counter() - since
        output, _ = load.communicate()
    finally:
        server.terminate()
        server.wait()
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)", output)
    p50, p99 = (milliseconds(re.search(rf"(?m)^\s+{p}%\s+(\S+)", output)[1]) for p in (50, 99))  # type: ignore[index]
    busy = max(others - cpu, 0.0) / elapsed
    errors = int(failed[1]) if failed else 0
    return Result(name, decisions, errors, 1e6 * cpu / decisions, decisions / elapsed, p50, p99, busy)


ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


# As `for_learners(learners, share_data=True)` makes it.
SETTINGS = {"CounterfactualBalancing": 'learning = ["all", "all", "all"]\ngreedy_experts = [0, 1, 2]\n'}


def commands_of(selector: str, folder: Path) -> dict[str, list[str]]:
    """The service with a selector, in memory and durable."""
    path, data = folder / f"load{selector}.toml", folder / f"data{selector}"
    table = f'[selector]\nuse = "{selector}"\n{SETTINGS.get(selector, "")}' if selector else ""
    path.write_text(CONFIG.replace("[[learner]]", table + "[[learner]]", 1))
    serve = ["-m", "equipoise", "serve", str(path), "--port", str(PORT)]
    label = f", {selector}" if selector else ""
    return {
        f"in memory{label}": [*serve, "--memory", "--data", str(folder / "none")],
        f"durable{label}": [*serve, "--data", str(data)],
    }


def start_wrk(script: Path, seconds: int) -> subprocess.Popen[str]:
    command = ["wrk", "--latency", "--timeout", "30s", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", str(script)]
    return subprocess.Popen([*command, f"http://127.0.0.1:{PORT}"], stdout=subprocess.PIPE, text=True)


def rounds_decided() -> int:
    with urlopen(f"http://127.0.0.1:{PORT}/v1/portfolios/load", timeout=60) as answer:
        return int(json.load(answer)["health"]["rounds"])


def wait_until_ready() -> None:
    for _ in range(200):
        try:
            with urlopen(f"http://127.0.0.1:{PORT}/readyz", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the server did not start")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--selector", action="append", help="name of a selector; default: the recommended one")
    parser.add_argument("--repeats", type=int, default=1, help="of all servers; the median CPU time counts")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        commands = {"bare route": ["-c", BARE, str(PORT)]}
        for selector in options.selector or [""]:
            commands |= commands_of(selector, folder)
        runs = [
            [run(name, command, folder, options.seconds) for name, command in commands.items()]
            for _ in range(options.repeats)
        ]
    results = [sorted(rows, key=lambda row: row.cpu_microseconds)[len(rows) // 2] for rows in zip(*runs, strict=True)]
    heads = f"{'CPU us':>9}{'ratio':>7}{'per s':>8}{'p50 ms':>8}{'p99 ms':>8}{'errors':>8}{'others':>8}"
    print(f"{'server':<34}{heads}")
    for row in results:
        ratio = row.cpu_microseconds / results[0].cpu_microseconds
        times = f"{row.p50_milliseconds:>8.1f}{row.p99_milliseconds:>8.1f}"
        line = f"{row.server:<34}{row.cpu_microseconds:>9.0f}{ratio:>7.2f}{row.per_second:>8.0f}{times}"
        print(f"{line}{row.errors:>8}{row.busy_cores_of_others:>8.2f}")
    if options.json is not None:
        options.json.write_text(json.dumps([row._asdict() for row in results], indent=1) + "\n")


if __name__ == "__main__":
    main()
