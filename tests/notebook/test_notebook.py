"""HTML of objects in a notebook: well-formed, escaped, and true to their numbers."""

import html as entities
from dataclasses import replace
from html.parser import HTMLParser

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import surebayes as sb
from surebayes import synthetic
from surebayes.core.score import Explanation
from surebayes.notebook import html

ALLOWED = {
    "b", "circle", "div", "g", "h4", "line", "p", "path", "polyline", "rect", "small", "span", "style", "svg", "table",
    "tbody", "td", "text", "th", "thead", "tr",
}  # fmt: skip


class Reader(HTMLParser):
    """Checks that elements nest, and collects what a reader sees."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.seen, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        assert tag in ALLOWED, tag
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs), attrs
        self.seen.append(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)


def read(page):
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    return "".join(reader.text), reader.seen


@given(st.lists(st.tuples(st.text(), st.floats(-1e6, 1e6)), max_size=30))
def test_terms_are_shown_as_text_whatever_they_are(rows):
    page = html.frame("why", html.strongest(rows))
    text, _ = read(page)
    speaking = [row for row in rows if row[1]]
    for term, value in sorted(speaking, key=lambda row: -abs(row[1]))[:1]:
        assert f"{term}{value:+.2f}" in text


@given(st.text(min_size=1), st.data())
def test_highlighting_keeps_the_text(text, data):
    shares = data.draw(st.lists(st.floats(-5, 5), min_size=len(text), max_size=len(text)))
    page = html.highlighted(text, shares)
    assert entities.unescape(_without_tags(page)) == text


def _without_tags(page):
    inner = page.removeprefix('<div class="text">').removesuffix("</div>")
    for tag in ("b", "span"):
        for side in ("for", "against"):
            inner = inner.replace(f'<{tag} class="{side}">', "")
        inner = inner.replace(f"</{tag}>", "")
    return inner


def test_a_long_text_is_cut_and_says_so():
    text, _ = read(html.highlighted("x" * 5000, [1.0] * 5000))
    assert text.count("x") == html.MOST_CHARACTERS
    assert "1,000 more characters" in text


def test_hostile_terms_stay_text():
    why = Explanation(
        np.arange(2), ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>'], np.array([2.0, -1.0]), 0.5, 1.5
    )
    text, seen = read(why._repr_html_())
    assert "<script>alert(1)</script>" in text
    assert "img" not in seen
    for number in ("score +1.50", "+2.00", "-1.00"):
        assert number in text


def test_an_explanation_of_a_pool_shows_every_view():
    mails, labels = synthetic.as_lists(300, seed=3)
    pool = sb.ViewPool().fit(mails, labels)
    why = pool.explain(mails[:1])[0]
    text, _ = read(why._repr_html_())
    assert f"score {why.score:+.2f}" in text
    for view in why.views:
        assert f"{view.name}: {view.share:+.2f}" in text


def test_a_certificate_says_its_promise_and_that_it_is_revoked():
    scores = np.concatenate((np.arange(5000), np.arange(4800, 5800)))
    certificate = sb.certify(scores, np.arange(6000) >= 5000, pos_label="<spam>")
    text, _ = read(certificate._repr_html_())
    assert all(promise in text for promise in certificate.promises)
    assert "is called <spam>" in text
    text, _ = read(replace(certificate, stale=True, reason="drift")._repr_html_())
    assert text.startswith("REVOKED (drift)")


def test_a_comparison_has_its_table_and_a_curve_for_each_classifier():
    X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]] * 10, [1, 0, 1, 0] * 10
    comparison = sb.compare({"<NB>": sb.MultinomialNB(), "pool": sb.OpinionPoolNB()}, X, y, repeats=3)
    text, seen = read(comparison._repr_html_())
    assert text.count("<NB>") == 2  # in the table and under the curves
    assert f"{comparison.mean('auc')['pool']:.3f}" in text
    assert seen.count("polyline") == 4


@pytest.mark.parametrize("estimator", [sb.OpinionPoolNB(), sb.ViewPool(), sb.GuaranteedThreshold(sb.MultinomialNB())])
def test_estimators_show_themselves(estimator):
    assert type(estimator).__name__ in estimator._repr_html_()
