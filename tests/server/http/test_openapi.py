"""The OpenAPI document and the server agree, whatever is sent: schemathesis makes it up."""

import shutil

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from running import Server

from surebayes.server.http.api import ENDPOINTS
from surebayes.server.http.openapi import document

# not rollback: every random version undoes all that came after it, the going back of other examples included
OPERATIONS = [
    (path, method) for path, methods in document()["paths"].items() for method in methods if path != "/v1/rollback"
]


@pytest.fixture(scope="module")
def server(trained, tmp_path_factory):
    """A server with people, one of whom has been taught, and with verdicts that are remembered."""
    place = tmp_path_factory.mktemp("served")
    folder = shutil.copytree(trained, place / "filter")
    with Server(folder, "--users", place / "users", listeners=("http",)) as running, running.http() as client:
        mail = {"Content-Type": "message/rfc822"}
        for number in range(20):
            text = b"From: ann@example.org\nX-Spam-Status: Yes, score=6 required=5\nSubject: %d\n\nlunch" % number
            assert client.post("/v1/classify?user=ann", content=text, headers=mail).status_code == 200
        assert client.post("/v1/learn?as=ham&user=ann", content=text, headers=mail).status_code == 200
        yield running


@pytest.fixture(scope="module")
def schema(server):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import schemathesis
    return schemathesis.openapi.from_url(f"http://127.0.0.1:{server.ports['http']}/openapi.json")


@pytest.mark.parametrize(("path", "method"), OPERATIONS, ids=lambda word: word)
def test_requests_of_every_kind_get_answers_of_the_kinds_that_are_promised(schema, path, method):
    from schemathesis.core.failures import FailureGroup
    from schemathesis.openapi.checks import RejectedPositiveData

    operation = schema[path][method.upper()]

    @given(case=operation.as_strategy())
    @settings(
        max_examples=15,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        derandomize=True,
        phases=[Phase.generate],
    )
    def check(case):
        try:
            case.call_and_validate()
        except FailureGroup as found:  # whether documents are enough for a promise is no matter of form
            if path != "/v1/calibrate" or not all(isinstance(e, RejectedPositiveData) for e in found.exceptions):
                raise

    check()


def test_every_endpoint_has_a_role_and_says_what_it_does():
    for endpoint in ENDPOINTS:
        assert endpoint.role in ("read", "teach", "admin")
        assert endpoint.about.endswith(".")
        only_looks = endpoint.method == "GET" or endpoint.path in ("/v1/classify", "/v1/explain")
        assert only_looks == (endpoint.role == "read")
