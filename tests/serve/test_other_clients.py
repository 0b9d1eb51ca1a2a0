"""The service as other libraries' clients see it: schemathesis reads its description, OpenFeature evaluates flags."""

import re
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
from tests.serve.served import ARMS, COLORS, LINEAR, client, configs, service_of

pytestmark = pytest.mark.service
SECRET = {"Authorization": "Bearer secret"}
TOKENS = Tokens([Token("fuzzer", digest_of("secret"), SCOPES)])


def test_the_description_is_complete() -> None:
    with client() as service:
        document = service.get("/openapi.json").json()
    described = {(path, method.upper()) for path, methods in document["paths"].items() for method in methods}
    assert document["openapi"] == "3.1.0"
    assert described == {(operation.path, operation.method) for operation in OPERATIONS}
    groups: dict[str, set[str]] = {}
    for path, methods in document["paths"].items():
        for about in methods.values():
            groups.setdefault(about["tags"][0], set()).add(path)
    assert groups["Azure Personalizer"] == {path for path, _ in described if "/personalizer/" in path}
    assert len(groups["Flags"]) == 2 and "/docs" in groups["Dashboard"]


def document_for(service: Any, **headers: str) -> Any:
    return service.get("/openapi.json", headers=headers).json()


def test_the_description_names_portfolios_to_those_who_may_see_them() -> None:
    decide = "/v1/portfolios/{name}/decide"
    tokens = Tokens([*TOKENS, Token("one", digest_of("one"), ("decide",), ("colors",))])
    with client(ARMS, COLORS, LINEAR, tokens=tokens) as service:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            stranger = document_for(service, **headers)
            assert not any(name in str(stranger) for name in ("arms", "colors", "greedy", "visits"))
        one = document_for(service, Authorization="Bearer one")
        everything = document_for(service, Authorization="Bearer secret")
        described = one["paths"][decide]["post"]
        (name,) = described["parameters"]
        assert name["schema"]["enum"] == ["colors"] and "linear" not in str(one)
        assert everything["paths"][decide]["post"]["parameters"][0]["schema"]["enum"] == ["arms", "colors", "linear"]
        reward = one["components"]["schemas"]["Reward"]["properties"]["reward"]
        assert (reward["minimum"], reward["maximum"]) == (0.0, 1.0), "the range of the file"
        for operation, path in (("decide", decide), ("evaluate", "/ofrep/v1/evaluate/flags/{name}")):
            examples = everything["paths"][path]["post"]["requestBody"]["content"]["application/json"]["examples"]
            for portfolio, example in examples.items():
                url, secret = path.format(name=portfolio), {"Authorization": "Bearer secret"}
                status = service.post(url, json=example["value"], headers=secret).status_code
                assert status == (400 if (operation, portfolio) == ("evaluate", "linear") else 200), example


def test_the_description_changes_with_the_files() -> None:
    with client(COLORS) as service:
        first = document_for(service)
        assert document_for(service) == first
        (changed,) = configs(COLORS.replace("age = ", "weight = "))
        service_of(service).portfolios["colors"].config = changed
        assert "weight" in str(document_for(service)) and "weight" not in str(first)


def test_links_lead_from_an_answer_to_the_next_request() -> None:
    with client(COLORS) as service:
        document = document_for(service)
        described = {
            each["operationId"]: (method, path, each)
            for path, methods in document["paths"].items()
            for method, each in methods.items()
        }
        example = described["decide"][2]["requestBody"]["content"]["application/json"]["examples"]["colors"]["value"]
        answer = service.post("/v1/portfolios/colors/decide", json=example).json()
        links = described["decide"][2]["responses"]["200"]["links"]
        assert set(links) == {"rewards", "withdraw", "decision"}
        for link in links.values():
            method, path, _ = described[link["operationId"]]
            assert link["parameters"]["name"] == "$request.path.name"
            if "requestBody" in link:
                assert link["requestBody"] == {"id": "$response.body#/id"}
                body = {"id": answer["id"], "reward": 1.0} if link["operationId"] == "rewards" else {"id": answer["id"]}
                assert service.request(method, path.format(name="colors"), json=body).status_code in (200, 409)
            else:
                assert link["parameters"]["id"] == "$response.body#/id"
        for _, _, each in described.values():  # a link must not lead astray
            for response in each["responses"].values():
                for link in response.get("links", {}).values():
                    _, path, _ = described[link["operationId"]]
                    assert set(re.findall(r"{(\w+)}", path)) == set(link["parameters"])


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


# Semantic rules, such as equal lengths of rows, go beyond what a schema can say: what fits the schema may be refused.
LEFT_OUT = ["positive_data_acceptance"]


def fuzzed() -> Any:
    schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis")
    app = create_app(configs(ARMS, COLORS, LINEAR), settings=Settings(hosts=("*",)), tokens=TOKENS)
    return schemathesis.openapi.from_asgi("/openapi.json", app, headers=SECRET)


@pytest.mark.slow
@pytest.mark.parametrize("operation_id", [each.id for each in OPERATIONS if each.media_type != "text/event-stream"])
def test_no_finding_of_schemathesis(operation_id: str) -> None:
    """A short form; a long one is `python -m tools.studies.schemathesis_run`, against a real server."""
    schema = fuzzed()
    from schemathesis.checks import CHECKS, load_all_checks

    load_all_checks()
    left_out = CHECKS.get_by_names(LEFT_OUT)
    operation = schema.find_operation_by_id(operation_id)
    answered: list[Any] = []

    @settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy())
    def fuzz(case: Any) -> None:
        answered.append(case.call_and_validate(headers=SECRET, excluded_checks=left_out))

    fuzz()
    assert answered
    strangers = ("unknown-portfolio", "FLAG_NOT_FOUND")
    if "{name}" in operation.path:  # the names are in the description
        assert not all(any(word in answer.text for word in strangers) for answer in answered)
