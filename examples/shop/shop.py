"""The shop: it asks the service which banner and offer a visitor sees, and reports clicks and purchases when they come.

    python examples/shop/shop.py --service http://127.0.0.1:8000 --port 8001

A visit without a purchase is never reported: the service gives it the default reward when its deadline has passed.
"""

from __future__ import annotations

import argparse
import threading
from html import escape

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from equipoise.serve import Client
from equipoise.serve.client import ServiceError

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>The shop</title>
<h1>The shop</h1>
<p>Today's banner: <b>{banner}</b>. An offer for you: <b>{offer}</b>.</p>
<form method="post" action="/buy?visit={visit}"><button>Buy</button></form>
<p><a href="/?phone=1">Visit by phone</a> · <a href="/?returning=1">come back</a></p></html>"""


class Shop:
    """The routes of the shop. A client of the service belongs to one thread."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._clients = threading.local()

    def _client(self, portfolio: str) -> Client:
        if not hasattr(self._clients, portfolio):
            setattr(self._clients, portfolio, Client(self._service, portfolio))
        client: Client = getattr(self._clients, portfolio)
        return client

    def _decide(self, visitor: dict[str, bool]) -> dict[str, str]:
        offer = self._client("offers").decide(visitor)
        banner = self._client("banner").decide(id=f"{offer.id}-b")
        return {"visit": str(offer.id), "offer": str(offer.action_id), "banner": str(banner.action_id)}

    def visit(self, request: Request) -> Response:
        """A page for people; for the load generator, what stands on it."""
        query = request.query_params
        visitor = {"phone": "phone" in query, "returning": "returning" in query}
        shown = self._decide(visitor)
        if request.url.path == "/visit":
            return JSONResponse(shown)
        return HTMLResponse(PAGE.format(**{key: escape(value) for key, value in shown.items()}))

    def click(self, request: Request) -> Response:
        return self._report("banner", request.query_params["visit"] + "-b")

    def buy(self, request: Request) -> Response:
        return self._report("offers", request.query_params["visit"])

    def _report(self, portfolio: str, id_: str) -> Response:
        try:
            self._client(portfolio).reward(id_, 1.0)
        except ServiceError as error:  # unknown, or too late: the customer need not know
            return JSONResponse({"counted": False, "why": error.kind})
        return JSONResponse({"counted": True})


def create_app(service: str) -> Starlette:
    shop = Shop(service)
    return Starlette(
        routes=[
            Route("/", shop.visit),
            Route("/visit", shop.visit),
            Route("/click", shop.click, methods=["POST"]),
            Route("/buy", shop.buy, methods=["POST"]),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--service", default="http://127.0.0.1:8000")
    parser.add_argument("--port", type=int, default=8001)
    options = parser.parse_args()
    uvicorn.run(create_app(options.service), port=options.port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
