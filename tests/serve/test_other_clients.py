"""The service as other libraries' clients see it: schemathesis reads its description, OpenFeature evaluates flags."""

from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="Starlette's test client needs httpx2")

from hypothesis import HealthCheck, given, settings

from equipoise.serve.app import create_app
from equipoise.serve.client import Client
from equipoise.serve.routes import OPERATIONS
from equipoise.serve.service import Settings
from equipoise.serve.tokens import SCOPES, Token, Tokens, digest_of
from tests.serve.served import ARMS, COLORS, LINEAR, client, configs

pytestmark = pytest.mark.service


def test_the_description_is_complete() -> None:
    with client() as service:
        document = service.get("/openapi.json").json()
    described = {(path, method.upper()) for path, methods in document["paths"].items() for method in methods}
    assert document["openapi"] == "3.1.0"
    assert described == {(operation.path, operation.method) for operation in OPERATIONS}


@pytest.mark.slow
def test_a_thousand_flags_of_the_stock_provider() -> None:
    api = pytest.importorskip("openfeature.api", reason="needs openfeature-sdk")
    ofrep = pytest.importorskip("openfeature.contrib.provider.ofrep", reason="needs openfeature-provider-ofrep")
    pytest.importorskip("uvicorn", reason="needs the extra serve")
    from openfeature.evaluation_context import EvaluationContext

    from tools.studies.dashboard_cost import running

    text = COLORS.replace("deadline = 3", "deadline = 2000")
    with running(create_app(configs(text))) as url, Client(url, "colors") as rewards:
        api.set_provider(ofrep.OFREPProvider(url))
        flags, given = api.get_client(), []
        for k in range(1_000):
            context = EvaluationContext(f"user-{k}", {"age": k % 7, "visits": 1.0, "country": "none of the features"})
            details = flags.get_string_details("colors", "default", context)
            assert details.reason == "SPLIT" and details.value in ("red", "blue"), details
            given.append((details.flag_metadata["decision"], float(details.value == "red")))
        assert all(outcome.error is None for outcome in rewards.rewards(given))
        assert rewards.status()["health"]["open"] == 0
        plays = {row["name"]: row["plays"] for row in rewards.status()["standing"]}
        assert sum(plays.values()) == 1_000
        missing = flags.get_string_details("nothing", "default", EvaluationContext("user"))
        assert (missing.value, missing.error_code) == ("default", "FLAG_NOT_FOUND")
        api.shutdown()


TOKENS = Tokens([Token("fuzzer", digest_of("secret"), SCOPES)])
# Semantic rules, such as equal lengths of rows, go beyond what a schema can say: what fits the schema may be refused.
LEFT_OUT = ["positive_data_acceptance"]


def fuzzed() -> Any:
    schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis")
    app = create_app(configs(ARMS, COLORS, LINEAR), settings=Settings(hosts=("*",)), tokens=TOKENS)
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    return schema


@pytest.mark.slow
@pytest.mark.parametrize("operation_id", [each.id for each in OPERATIONS if each.media_type != "text/event-stream"])
def test_no_finding_of_schemathesis(operation_id: str) -> None:
    """A short form; a long one is `st run http://127.0.0.1:8000/openapi.json --checks all` against a real server."""
    schema = fuzzed()
    from schemathesis.checks import CHECKS, load_all_checks

    load_all_checks()
    left_out = CHECKS.get_by_names(LEFT_OUT)
    operation = schema.find_operation_by_id(operation_id)
    answered: list[Any] = []

    @settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy())
    def fuzz(case: Any) -> None:
        if "name" in (case.path_parameters or {}):
            case.path_parameters["name"] = "arms"
        answered.append(case.call_and_validate(headers={"Authorization": "Bearer secret"}, excluded_checks=left_out))

    fuzz()
    assert answered
