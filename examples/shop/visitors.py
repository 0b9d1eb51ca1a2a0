"""The load generator: visitors who click and buy some seconds later, or never; their taste changes once.

    python examples/shop/visitors.py --shop http://127.0.0.1:8001 --seconds 60

It ends after that many seconds. While `OUTAGE_SECONDS` last, the model server of the recommender is down.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import http.client
import json
import os
import random
import time
from pathlib import Path
from urllib.parse import urlsplit

OUTAGE_SECONDS = (60.0, 180.0)
DRIFT_SECONDS = 240.0
OFFERS = ("discount", "bundle", "gift", "points")
# How often each offer sells, by (phone, returning); before and after taste changes.
SALES = {
    (False, False): (0.25, 0.15, 0.10, 0.05),
    (False, True): (0.15, 0.45, 0.20, 0.30),
    (True, False): (0.30, 0.10, 0.50, 0.10),
    (True, True): (0.20, 0.25, 0.35, 0.60),
}
SALES_AFTER = {
    (False, False): (0.20, 0.50, 0.10, 0.10),
    (False, True): (0.15, 0.20, 0.55, 0.20),
    (True, False): (0.15, 0.45, 0.20, 0.10),
    (True, True): (0.55, 0.20, 0.15, 0.25),
}
CLICKS = {"calm": 0.10, "bright": 0.55, "video": 0.25}
MEAN_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 2.0, 15.0  # the longest ones come after the deadline


class Visitors:
    """All visitors, one after the other, over one connection."""

    def __init__(self, shop: str, seed: int, outage: Path | None) -> None:
        self._address = urlsplit(shop)
        self._rng = random.Random(seed)
        self._outage = outage
        self._later: list[tuple[float, str]] = []  # requests, by their time
        self._connection: http.client.HTTPConnection | None = None

    def run(self, seconds: float, per_second: float) -> int:
        """Send visitors until the time is over; returns how many came."""
        since, visits = time.monotonic(), 0
        while (now := time.monotonic() - since) < seconds:
            self._set_outage(OUTAGE_SECONDS[0] <= now < OUTAGE_SECONDS[1])
            while self._later and self._later[0][0] <= now:
                self._request("POST", heapq.heappop(self._later)[1])
            self._visit(now)
            visits += 1
            time.sleep(max(visits / per_second - (time.monotonic() - since), 0.0))
        self._set_outage(False)
        return visits

    def _visit(self, now: float) -> None:
        rng = self._rng
        kind = rng.random() < 0.5, rng.random() < 0.4
        flags = "&".join(name for name, flag in zip(("phone", "returning"), kind, strict=True) if flag)
        shown = self._request("GET", f"/visit?{flags}")
        if shown is None:
            return
        sales = SALES_AFTER if now >= DRIFT_SECONDS else SALES
        if rng.random() < CLICKS[shown["banner"]]:
            self._send_later(now, f"/click?visit={shown['visit']}")
        if rng.random() < sales[kind][OFFERS.index(shown["offer"])]:
            self._send_later(now, f"/buy?visit={shown['visit']}")

    def _send_later(self, now: float, path: str) -> None:
        delay = min(self._rng.expovariate(1.0 / MEAN_DELAY_SECONDS), LONGEST_DELAY_SECONDS)
        heapq.heappush(self._later, (now + delay, path))

    def _set_outage(self, down: bool) -> None:
        if self._outage is not None and self._outage.exists() != down:
            self._outage.touch() if down else self._outage.unlink()

    def _request(self, method: str, path: str) -> dict[str, str] | None:
        """The answer; None if the shop gave none, which ends that visit and nothing else."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection(str(self._address.hostname), self._address.port, timeout=30)
        try:
            self._connection.request(method, path)
            response = self._connection.getresponse()
            body = response.read()
            answer: dict[str, str] | None = json.loads(body) if response.status == 200 else None
            return answer
        except (OSError, http.client.HTTPException):
            self._connection.close()
            self._connection = None
            time.sleep(0.5)
            return None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shop", default="http://127.0.0.1:8001")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=25.0, help="visitors per second")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    outage = os.environ.get("SHOP_MODEL_SERVER_DOWN")
    visitors = Visitors(options.shop, options.seed, None if outage is None else Path(outage))
    with contextlib.suppress(KeyboardInterrupt):
        print(f"{visitors.run(options.seconds, options.rate):,} visitors came.")


if __name__ == "__main__":
    main()
