"""Train every classifier of the five papers on mail, and compare them where false alarms are expensive.

The mail is the SpamAssassin corpus where SUREBAYES_DATA names a folder that has it, else a synthetic stream. The first
third of the stream trains, as a filter would be trained; nothing is tuned. Run it with `make demo`; with
`--plot FILE` it also draws the ROC curves of some of them for false-positive rates up to 5%.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import ComplementNB
from sklearn.pipeline import make_pipeline

import surebayes as sb
from surebayes import corpora, metrics, synthetic

NB = dict(tf="binary", contrast="rest")
SYSTEMS = {
    "NB": sb.MultinomialNB(**NB),
    "NB, 10 best terms per message": sb.MultinomialNB(**NB, top=10),
    "NB-IR (idf, L2)": sb.MultinomialNB(**NB, weight="idf", norm="l2"),
    "opinion pool, geo": sb.OpinionPoolNB(weight="uniform"),
    "opinion pool, abs_idf": sb.OpinionPoolNB(),
    "opinion pool, weights at scoring": sb.OpinionPoolNB(weight="abs", weighting="scoring"),
    "Poisson NB": sb.PoissonNB(),
    "Poisson NB, chi2 weights": sb.PoissonNB(weight="chi2"),
    "class-normalised NB": sb.ClassNormalizedNB(),
    "centroid": sb.CentroidClassifier(),
    "term discriminant, KL": sb.TermDiscriminant(weight="kl"),
    "decision reversal": sb.DecisionReversalNB(),
    "(scikit-learn) ComplementNB": ComplementNB(),
    "(scikit-learn) logistic regression, tf-idf": make_pipeline(TfidfTransformer(), LogisticRegression(max_iter=500)),
}


DRAWN = (
    "NB",
    "NB-IR (idf, L2)",
    "opinion pool, geo",
    "decision reversal",
    "(scikit-learn) logistic regression, tf-idf",
)


def draw(path: str, title: str, y: np.ndarray, scores: dict[str, np.ndarray]) -> None:
    """Draw the ROC curves where false alarms are few."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for name in DRAWN:
        fpr, tpr = metrics.roc_curve(y, scores[name])[:2]
        axes.step(100 * fpr, 100 * tpr, where="post", label=name, linestyle="--" if name[0] == "(" else "-")
    axes.set(xlim=(0, 5), ylim=(40, 100), xlabel="ham taken for spam, %", ylabel="spam caught, %", title=title)
    axes.legend(loc="lower right")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def mails() -> tuple[str, list[bytes], np.ndarray]:
    """Give the name of the stream, its messages in chronological order, and their labels."""
    if "spamassassin" in corpora.available():
        corpus = corpora.load("spamassassin")
        return "the SpamAssassin corpus", corpora.mails(corpus), np.array(corpus.labels) == "spam"
    stream = list(synthetic.mail_stream(6000, seed=1))
    return "a synthetic stream", [mail.raw for mail in stream], np.array([m.label == "spam" for m in stream])


def main() -> int:
    """Print the table."""
    console = Console(width=None if sys.stdout.isatty() else 118)
    progress = Progress(
        TextColumn("{task.description:42}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console,
        transient=True,
    )  # fmt: skip
    with progress:
        reading = progress.add_task("reading mail", total=None)
        name, raw, spam = mails()
        progress.update(reading, total=len(raw))
        texts = []
        for mail in raw:
            message = sb.read_message(mail)
            texts.append(f"{message.subject}\n{message.text}")
            progress.advance(reading)
        n = len(texts) // 3
        words = sb.CountVectorizer(min_df=2).fit(texts[:n])
        train, test = words.transform(texts[:n]), words.transform(texts[n:])
        table = Table(title=f"{name}: {n:,} messages train, the next {len(texts) - n:,} test, {train.shape[1]:,} words")
        table.add_column("classifier")
        for heading in ("AUC for FPR <= 10%", "spam caught at 1% FPR", "at 0.1% FPR", "train", "judge"):
            table.add_column(heading, justify="right")
        task, all_scores = progress.add_task("", total=len(SYSTEMS)), {}
        for system, estimator in SYSTEMS.items():
            progress.update(task, description=system)
            start = time.perf_counter()
            estimator.fit(train, spam[:n])
            middle = time.perf_counter()
            judge = getattr(estimator, "decision_function", None)
            scores = judge(test) if judge is not None else np.diff(estimator.predict_log_proba(test))[:, 0]
            end = time.perf_counter()
            y, all_scores[system] = spam[n:], scores
            table.add_row(
                system,
                f"{metrics.partial_auc(y, scores, max_fpr=0.1):.3f}",
                f"{metrics.tpr_at_fpr(y, scores, 0.01):.1%}",
                f"{metrics.tpr_at_fpr(y, scores, 0.001):.1%}",
                f"{1000 * (middle - start):.0f} ms",
                f"{1000 * (end - middle):.0f} ms",
            )
            progress.advance(task)
    console.print(table)
    if "--plot" in sys.argv[1:-1]:
        draw(sys.argv[sys.argv.index("--plot") + 1], f"{name}: first third trains, the rest tests", y, all_scores)
    best = sb.OpinionPoolNB().fit(train, spam[:n])
    judged = int(np.argmax(best.decision_function(test)))
    strongest = best.explain(test[[judged]], top=8, terms=words.get_feature_names_out())[0]
    console.print(f"\nThe surest verdict of the opinion pool scores {strongest.score:+.2f}; its strongest terms:")
    for term, share in zip(strongest.terms, strongest.contributions):
        console.print(f"  {share:+.3f}  {term}", highlight=False, markup=False)
    copies = best.reversal(test[[judged]]).multiplicity[0]
    console.print(
        "\nTaught as ham again and again, that message would turn "
        + (f"after {copies:,.0f} times." if np.isfinite(copies) else "not even after a million times.")
    )
    console.print("\nNext: docs/variants.md lists every system of the papers; README.md has two minutes of Python.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
