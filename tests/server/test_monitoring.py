"""Alert rules and the board: every metric that they name is one of the server's, and promtool accepts the rules."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from running import Server

FILES = Path(__file__).parents[2] / "packaging" / "prometheus"
MAIL = {"Content-Type": "message/rfc822"}
NAME = re.compile(r"\bsurebayes_\w+")


def expressions():
    rules = re.findall(r"^ +expr: (.*)$", (FILES / "alerts.yml").read_text(), re.MULTILINE)
    board = json.loads((FILES / "grafana.json").read_text())
    shown = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(rules) >= 12
    assert len(shown) >= 12
    return [*rules, *shown, board["templating"]["list"][1]["query"]]


def test_every_metric_of_a_rule_is_measured(folder, mails, tmp_path):
    """After a verdict, a lesson of a person, an error and a refusal; the last two need not have a value."""
    flags = ("--users", tmp_path / "users")
    with Server(folder, *flags, listeners=("http",)) as server, server.http() as client:
        client.post("/v1/learn?as=spam&user=ann", content=mails["ham"], headers=MAIL).raise_for_status()
        client.post("/v1/calibrate", json={"budget": 0.01}).raise_for_status()
        client.post("/v1/classify", content=mails["ham"], headers=MAIL).raise_for_status()
        client.get("/v1/status", headers={"Origin": "https://evil.example"})
        page = client.get("/metrics").text
    measured = {line.split("{")[0].split(" ")[0] for line in page.splitlines() if not line.startswith("#")}
    declared = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")}
    named = {name for text in expressions() for name in NAME.findall(text)}
    assert len(named) > 10
    assert named - measured <= {"surebayes_errors_total"}
    assert named - measured <= {name if name.endswith("_total") else f"{name}_total" for name in declared} | declared
    labels = {name: set(re.findall(r"(\w+)=", text)) for name, text in re.findall(r"^(\w+){(.*)} ", page, re.MULTILINE)}
    for text in expressions():
        for name, inside in re.findall(r"(surebayes_\w+){([^}]*)}", text):
            assert set(re.findall(r"(\w+)=", inside)) <= labels.get(name, set()) | {"instance"}, text


def test_runbooks_have_the_symptoms():
    text = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    for number in set(re.findall(r"symptom (\d+)", (FILES / "alerts.yml").read_text())):
        assert re.search(rf"^\| {number} \|", text, re.MULTILINE), number


@pytest.mark.parametrize("words", [("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml")])
def test_promtool_accepts_the_rules(words):
    if shutil.which("promtool") is None:
        pytest.skip("promtool isn't installed: it is in Debian's package prometheus")
    done = subprocess.run(["promtool", *words], cwd=FILES, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
