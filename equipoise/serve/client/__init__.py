"""Clients of the service, with the standard library only: `Client` for threads and `AsyncClient` for tasks.

    client = Client("http://127.0.0.1:8000", "offers")
    decision = client.decide()
    client.reward(decision.id, 1.0)

`calls` decides what is sent and repeated, `wire` writes and reads HTTP, and `threads` and `tasks` only carry bytes.
"""

from equipoise.serve.client.calls import Outcome, Round, ServiceError
from equipoise.serve.client.tasks import AsyncClient
from equipoise.serve.client.threads import Client

__all__ = ["AsyncClient", "Client", "Outcome", "Round", "ServiceError"]
