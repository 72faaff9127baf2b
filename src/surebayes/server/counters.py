"""Prometheus metrics; several workers share their values in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0)


class Counters:
    """Counters, gauges and histograms of the server."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.verdicts = Counter("surebayes_verdicts", "Documents judged.", ["door", "label"], registry=registry)
        self.lessons = Counter("surebayes_lessons", "Lessons by outcome.", ["door", "outcome"], registry=registry)
        self.errors = Counter("surebayes_errors", "Requests that failed.", ["door", "error"], registry=registry)
        self.refused = Counter("surebayes_refused", "Requests over a limit or without permission.", ["door", "reason"],
                               registry=registry)  # fmt: skip
        self.seconds = Histogram("surebayes_judge_seconds", "Time from the complete document to its verdict.", ["door"],
                                 buckets=_SECONDS, registry=registry)  # fmt: skip
        self.last_lesson = self._gauge("last_lesson_timestamp_seconds", "Time of the latest lesson.", "mostrecent")
        self.shadow = self._gauge("shadow", "1 if mail is only judged and logged.", "livemax")
        self.surge = self._gauge("surge", "1 while the share of positives exceeds its limit.", "livemax")
        self.tagging = self._gauge("tagging", "1 if positives are marked.", "livemin")
        self.in_hand = self._gauge("requests_in_hand", "Requests in progress.", "livesum")
        self.remembered = self._gauge("remembered_verdicts", "Remembered verdicts.", "mostrecent")
        self.debt = self._labelled("budget_debt", "Debt of the alarm budget.", "label")
        self.mute = self._labelled("budget_mute", "1 while the alarm budget is spent.", "label")
        about = "on the true false-alarm rate so far, valid at all times; by known labels, or with presumed labels."
        names = ["label", "reading"]
        self.audit = {
            end: Gauge(f"surebayes_audit_{end}", text, names, registry=registry, multiprocess_mode="mostrecent")
            for end, text in (
                ("lower", f"Lower bound {about}"), ("upper", f"Upper bound {about}"),
                ("n", "Good documents behind the bounds."), ("alarms", "False alarms among them."),
            )
        }  # fmt: skip
        self.person_lessons = self._labelled("person_lessons", "Messages learnt by a person's layer.", "person")
        self.person_last = self._labelled(
            "person_last_lesson_timestamp_seconds", "Time of a person's latest lesson.", "person"
        )
        self.documents = Gauge("surebayes_documents", "Documents learnt.", ["label"], registry=registry,
                               multiprocess_mode="mostrecent")  # fmt: skip
        self.waiting = self._gauge(
            "waiting_lessons", "Lessons that wait for the database of the journal.", "mostrecent"
        )
        self.cut_off = self._gauge("journal_away", "1 while the database of the journal can't be reached.", "livemax")
        self.waiting_verdicts = self._gauge(
            "waiting_verdicts", "Verdicts that the other hosts of the journal don't have yet.", "mostrecent"
        )
        self.host_row = self._labelled("host_row", "Last row of the journal on each host.", "host")
        self.host_seconds = self._labelled("host_report_age_seconds", "Seconds since a host's report.", "host")
        self.host_differs = self._labelled(
            "host_differs", "1 if a host's lessons differ from those of another host at the same row.", "host"
        )
        self.ship_behind = self._gauge("ship_behind_rows", "Rows that are not shipped yet.", "mostrecent")
        self.ship_problem = self._gauge("ship_problem", "1 while the journal can't be shipped.", "livemax")
        self.follow_row = self._gauge("follow_row", "Last row of a copy that follows another filter.", "mostrecent")
        self.follow_age = self._gauge(
            "follow_age_seconds", "Seconds since the source of a copy shipped something.", "mostrecent"
        )
        self.follow_problem = self._gauge("follow_problem", "1 while a copy can't follow its source.", "livemax")
        self.tls_expires = self._gauge(
            "tls_expires_timestamp_seconds", "When the certificate of the ports expires; 0 without TLS.", "mostrecent"
        )
        self.stale = self._gauge("certificate_stale", "1 if the certificate is stale.", "mostrecent")

    def show_hosts(self, found: Iterable[Mapping[str, Any]]) -> None:
        """Show the hosts that share the journal."""
        for host in found:
            self.host_row.labels(host["name"]).set(host["row"])
            self.host_seconds.labels(host["name"]).set(host["seconds"])
            self.host_differs.labels(host["name"]).set(host["state"] == "different")

    def show_shipping(self, status: Mapping[str, Any]) -> None:
        """Show the state of a shipped journal, or of a copy."""
        shipped, followed = status.get("shipped"), status.get("followed")
        if shipped is not None:
            self.ship_behind.set(shipped["behind"] or 0)
        self.ship_problem.set(bool(shipped and shipped["problem"]))
        if followed is not None:
            self.follow_row.set(followed["row"] or 0)
            self.follow_age.set(followed["seconds"] or 0)
        self.follow_problem.set(bool(followed and followed["problem"]))

    def _labelled(self, name: str, about: str, label: str) -> Gauge:
        return Gauge(f"surebayes_{name}", about, [label], registry=self._registry, multiprocess_mode="mostrecent")

    def _gauge(self, name: str, about: str, mode: Any) -> Gauge:
        return Gauge(f"surebayes_{name}", about, registry=self._registry, multiprocess_mode=mode)

    def page(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        return generate_latest(self._of_all_workers())

    def judged(self) -> dict[str, int]:
        """Return the number of verdicts by class since the server started."""
        counts: dict[str, int] = {}
        for metric in self._of_all_workers().collect():
            for sample in metric.samples:
                if sample.name == "surebayes_verdicts_total":
                    label = sample.labels["label"]
                    counts[label] = counts.get(label, 0) + int(sample.value)
        return counts

    def _of_all_workers(self) -> CollectorRegistry:
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return self._registry
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return registry
