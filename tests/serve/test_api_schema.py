"""The description of the API is valid, complete, and true: schemathesis sends what it allows and what it does not."""

import json
from pathlib import Path

import httpx
import hypothesis
import pytest
from serving import Running, running

from clickvec.serve.application import ENDPOINTS

schemathesis = pytest.importorskip("schemathesis")
checks = pytest.importorskip("schemathesis.checks")
openapi_checks = pytest.importorskip("schemathesis.specs.openapi.checks")

CHECKS = [
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
    openapi_checks.negative_data_rejection,
    openapi_checks.unsupported_method,
]


def test_it_lists_every_endpoint_and_its_limits(reading: Running) -> None:
    described = reading.client.get("/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    operations = {f"{method.upper()} {path}" for path, item in described["paths"].items() for method in item}
    assert operations == {endpoint.name for endpoint in ENDPOINTS}
    properties = described["components"]["schemas"]["SearchRequest"]["properties"]
    assert properties["k"]["maximum"] == reading.service.limits.hits
    names = [operation["operationId"] for item in described["paths"].values() for operation in item.values()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_no_request_is_a_server_error_and_every_answer_fits(endpoint, write_index: Path, tmp_path: Path) -> None:  # noqa: ANN001
    with running(write_index, tmp_path, {"hits": 100, "documents": 50}) as service:
        schema = schemathesis.openapi.from_dict(service.client.get("/openapi.json").json())
        operation = schema[endpoint.path][endpoint.method]
        base_url = f"http://127.0.0.1:{service.port}"
        if endpoint.at == "study":  # the first answer may take longer than schemathesis waits
            service.client.get(endpoint.path.replace("{dimension}", "0"), timeout=60)
        modes = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]

        @hypothesis.settings(
            max_examples=40, deadline=None, database=None, derandomize=True,
            suppress_health_check=list(hypothesis.HealthCheck), phases=[hypothesis.Phase.generate],
        )  # fmt: skip
        @hypothesis.given(data=hypothesis.strategies.data())
        def send(data) -> None:  # noqa: ANN001
            mode = data.draw(hypothesis.strategies.sampled_from(modes))
            case = data.draw(operation.as_strategy(generation_mode=mode))
            case.call_and_validate(base_url=base_url, checks=CHECKS)

        send()
        with httpx.Client(base_url=base_url, trust_env=False) as client:
            assert client.get("/healthz").status_code == 200
    statuses = [json.loads(line)["status"] for line in (tmp_path / "access.jsonl").read_text().splitlines()]
    assert max(statuses) < 500
    assert endpoint.body is None or statuses.count(200) >= 3
