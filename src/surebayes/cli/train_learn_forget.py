"""The `train`, `learn`, `forget` and `rescue` commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from surebayes.cli.shared import inputs as _inputs
from surebayes.cli.shared import next_step as _next_step
from surebayes.cli.shared import positive as _positive
from surebayes.cli.shared import receipts as _receipts
from surebayes.cli.shared import show as _show
from surebayes.cli.shared.command import (
    TEACH,
    TOPICS,
    Command,
    ParamType,
    is_flag,
    model_option,
    option,
    person,
    setting,
    site_of_person,
    was_given,
)
from surebayes.errors import BadInput
from surebayes.filter import settings
from surebayes.filter.options import AS
from surebayes.filter.quick.lessons import about_set_aside
from surebayes.guarantees.positive_class import positive_of
from surebayes.mail.header_check import HeaderCheck, no_mail, no_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from surebayes.cluster import DaskSpread
    from surebayes.datasets.sources import SourceDocument
    from surebayes.filter.filter import Filter


class _YesOrUrl(ParamType):
    """Type of `train --journal`: a word for yes or no, as in the settings, or a database's URL."""

    name = "journal"

    def convert(self, value: Any, param: Any, ctx: Any) -> bool | str:
        """Return whether to keep a journal, or its URL."""
        from surebayes.filter.shared.address import SCHEMES, checked_url

        try:
            if isinstance(value, str) and "://" in value:
                return checked_url(value)
            known: bool = settings.SETTINGS["journal"].checked(value)
            return known
        except settings.BadConfig as error:
            self.fail(f"{error} Or give the URL of a database: {SCHEMES[0]}...", param, ctx)


@click.command(
    cls=Command,
    person=TEACH,
    first=("model", "ham", "spam", "classes", "csv_files"),
    sections={"Training": ("reserve", "renew", "journal", "no_journal", "dask")},
    examples=(
        ("surebayes train -m ~/mail-filter --ham ~/Maildir --spam ~/Maildir/.Junk",
         "Train a spam filter from two Maildirs."),
        ("surebayes train -m topics --reader text --csv news.csv --text body --label topic",
         "Train a text filter; the column `topic` holds the classes."),
        ("surebayes train -m desk --class other=in.mbox --class invoice=invoices/ --class order=orders/",
         "Train a filter with three classes; the first is the negative class."),
        ("surebayes train -m ~/mine --base /srv/site --ham ~/Maildir",
         "Train a personal layer on top of a shared filter."),
        ("surebayes train -m ~/mail-filter --journal postgresql://mail@db/filters --ham ~/Maildir --spam ~/Junk",
         "Train a filter whose journal can be shared with other hosts."),
    ),
)  # fmt: skip
@model_option()
@_inputs.class_options
@click.option("--positive", metavar="NAME", help=(
    "The positive class. Promises limit its false alarms. Default: a class named spam, 1, yes or similar; otherwise, "
    "the second of two classes."
))  # fmt: skip
@click.option("--base", type=click.Path(readable=False, file_okay=False), metavar="DIR", help=(
    "Make the new filter a layer on top of this base. A layer judges with the counts of both, and gives its own "
    "lessons a higher weight."
))  # fmt: skip
@setting("own_weight")
@setting("group")
@setting("quota_lessons")
@setting("quota_bytes")
@setting("reader")
@setting("views")
@setting("width")
@setting("reserve", about="The share of the first class to set aside for calibration.")
@click.option(
    "--journal",
    "journal",
    envvar="SUREBAYES_JOURNAL",
    is_flag=False,
    flag_value="yes",
    default=True,
    metavar="[URL]",
    type=_YesOrUrl(),
    help=(
        "Keep a journal of these documents, as `forget`, `tune` and `rebuild` require. With a URL "
        "(postgresql://USER@HOST/DATABASE), a new filter's journal is stored in that database; otherwise, in the "
        "filter's folder."
    ),
)
@click.option("--no-journal", is_flag=True, help="Do not journal these documents.")
@click.option("--dask", metavar="SCHEDULER", help=(
    "Read the documents on the Dask cluster with this scheduler address, such as tcp://head:8786."
))  # fmt: skip
@click.option("--content/--no-content", "content", default=None, help=(
    "Keep the text of the documents in the journal, or only their hashed columns, which are unreadable but take up "
    "several times as much space. Default: the filter's setting; a new filter keeps the text."
))  # fmt: skip
@setting("renew")
@_show.output_options
def train(
    model: str,
    positive: str | None,
    dask: str | None,
    content: bool | None,
    renew: bool,
    as_json: bool | None,
    **options: Any,
) -> None:
    """Train a filter on labelled documents.

    Creates a filter, or adds to an existing one. Each document is learnt only once, even if it is given repeatedly. A
    share of the first class is set aside for `calibrate`. If the filter already has a certificate, it is renewed from
    the documents set aside.
    """
    from surebayes.filter.filter import is_filter
    from surebayes.filter.new_folder import remove_unused
    from surebayes.mail.header_check import HeaderCheck

    inputs = _inputs.take_inputs(options)
    reserve, where = options.pop("reserve"), options.pop("journal")
    url, journal = where if isinstance(where, str) else None, not options.pop("no_journal") and bool(where)
    if url is not None and (base := options["base"] or site_of_person()):
        raise click.UsageError(f"A layer's journal is in its folder. Leave out --journal URL, or --base {base}.")
    if url is not None and not journal:
        raise click.UsageError("--journal URL and --no-journal contradict each other. Leave one out.")
    new, base = not is_filter(model), options.pop("base") or site_of_person()
    if not new:
        inputs.allow_empty()
    classes = _classes(inputs, positive) if new and base is None else []
    is_new = False
    headers, assumed = HeaderCheck(), None if options["reader"] else inputs.usual_reader
    spread = _spread(dask)
    try:
        kind = {"reader": options["reader"] or assumed, "model": options["views"], "width": options["width"]}
        kind["content"] = content is not False
        if base is not None:
            given = {name: kind[name] for name, option in _KIND.items() if is_flag(option)}
            given["content"] = kind["content"]
            trained, is_new = _layer_made_or_opened(model, renew, base, options["own_weight"], given)
            reserve = reserve if was_given("reserve") else 0.0
        else:
            trained, is_new = _made_or_opened(model, renew, classes, kind)
        with trained:
            if is_new and options["group"] is not None:
                trained.share(options["group"])
            if url is not None:
                _share_journal(trained, model, url, is_new)
            if content is not None and not is_new:
                trained.keep_content(content)
            _limit(trained, options)
            with _show.progress("reading", _inputs.total(inputs)) as counter:
                documents = headers.watched(_inputs.content_and_label(inputs, counter))
                done = trained.train(documents, reserve=reserve, journal=journal, progress=counter.step, spread=spread)
            status, unweighed = trained.status(), trained.unweighed()
            separation = _separation(trained.classes, *trained.held_out_scores())
            certificate = trained.certificate
            advice = (
                None if certificate is not None and not certificate.stale else _next_step.for_filter(trained, model)
            )
    except BaseException:
        if is_new:
            remove_unused(model)
        raise
    finally:
        if spread is not None:
            spread.close()
    inputs.report()
    assumed = assumed if is_new and base is None else None
    for sentence in _about_documents(assumed, headers, done["contradictory"]):
        _show.note(sentence)
    report = _record(done, len(inputs.skipped), status["documents"], status["model"], separation)
    if _show.wants_json(as_json):
        _show.print_json(report)
    else:
        _print_summary(model, report, advice)
    second_stage = status["second_stage"] if status["reader"] == "text" else None
    for sentence in _about_filter(model, unweighed, second_stage, journal):
        _show.note(sentence)


_KIND = {"reader": "reader", "model": "views", "width": "width"}
"""Properties fixed when a filter is created, with their options; a layer takes those of its base by default."""


def _share_journal(trained: Filter, model: str, url: str, is_new: bool) -> None:
    """Put the journal of a new filter into a database; that of an existing filter must already be there."""
    from surebayes.filter import hosts
    from surebayes.filter.store.journal_file import is_shared

    if not is_new and not is_shared(model):
        raise BadInput(
            f"{model} has its journal in its folder. Move it first: surebayes migrate -m {model} --journal URL"
        )
    hosts.share(model, url)


def _spread(scheduler: str | None) -> DaskSpread | None:
    """Return the connection to a Dask cluster that reads documents, if one is named."""
    if scheduler is None:
        return None
    from surebayes.cluster import DaskSpread

    return DaskSpread(scheduler)


def _made_or_opened(model: str, renew: bool, classes: list[str], kind: dict[str, Any]) -> tuple[Filter, bool]:
    """Return the filter, and whether this process created it; a concurrent training may have been faster."""
    from surebayes.filter.filter import Filter, is_filter

    if classes:
        try:
            return Filter.create(model, classes, **kind), True
        except FileExistsError:
            if not is_filter(model):
                raise
    return Filter.open(model, renew=renew), False


def _layer_made_or_opened(
    model: str, renew: bool, base: str, own_weight: int, kind: dict[str, Any]
) -> tuple[Filter, bool]:
    """Return a layer, and whether this process has created it; an existing one gets the given base."""
    from surebayes.filter.filter import Filter, is_filter

    if not is_filter(model):
        try:
            return Filter.create(model, base=base, own_weight=own_weight, renew=renew, **kind), True
        except FileExistsError:
            if not is_filter(model):
                raise
    opened = Filter.open(model, renew=renew)
    try:
        opened.move_base(base, own_weight if was_given("own_weight") else None)
    except BaseException:
        opened.close()
        raise
    return opened, False


def _classes(inputs: _inputs.Inputs, positive: str | None) -> list[str]:
    """Return the classes of a new filter: ham before spam, else in order of appearance; the positive one last."""
    classes = inputs.sources.labels()
    if positive is not None and positive not in classes:
        raise BadInput(f"--positive {positive} is not a class of the data. Classes: {', '.join(classes)}.")
    if len(classes) < 2:
        listed = f"only {classes[0]!r}" if classes else "none"
        raise BadInput(f"A new filter needs documents of two or more classes. Got {listed}.")
    if positive is not None:
        return _with_last(classes, positive)
    if len(classes) > 2:
        return classes
    in_order = all(source.label is not None for source in inputs.sources.sources)
    taken = classes[1] if in_order else positive_of(classes) or classes[1]
    return _with_last(classes, _positive.resolve_positive(classes, taken, "give a new filter --positive NAME"))


def _with_last(classes: list[str], positive: str) -> list[str]:
    return [name for name in classes if name != positive] + [positive]


def _print_summary(model: str, report: dict[str, Any], advice: _next_step.Advice | None) -> None:
    _show.print_facts(
        {
            "learnt": report["learnt"] + report["moved"],
            "already known": report["already"],
            "set aside": report["reserved"],
            **{f"class {name}": count for name, count in report["documents"].items()},
        },
        f"Trained {model}:",
    )
    if report["positive"] is not None:
        negative, positive = report["documents"]
        _show.say(_positive.roles(negative, positive))
    held_out = report["held_out"]
    click.echo()
    if held_out["figures"]:
        figures = {name: tuple(figure.values()) for name, figure in held_out["figures"].items()}
        _show.print_figures(figures, 0.95, f"On the {held_out['documents']:,} set aside:")
    if advice is not None:
        advice.print()


def _limit(opened: Filter, quota: Mapping[str, int] | None) -> None:
    """Apply the quota of a person to a filter, for a person's layer or a given quota."""
    from surebayes.filter.persons import Quota

    if quota is not None and (quota["quota_lessons"] or quota["quota_bytes"]):
        opened.limit(Quota(quota["quota_lessons"], quota["quota_bytes"]))


@contextmanager
def _opened_to_teach(model: str, renew: bool, quota: Mapping[str, int] | None) -> Iterator[Filter]:
    """Open a filter, or a personal layer that is created for the first lesson and removed if there is none."""
    from surebayes.filter import settings
    from surebayes.filter.filter import Filter
    from surebayes.filter.new_folder import remove_unused
    from surebayes.filter.persons import folder_of, has_layer
    from surebayes.filter.site_persons import persons_of

    named, unused = person(), None
    if named is not None and quota is not None:
        folder = folder_of(named.users, named.name)
        unused = None if has_layer(folder) else folder
        group = settings.resolve(named.site)["group"].value
        opened = persons_of(named.users, named.site, group=group).layer(named.name, renew)
    else:
        opened = Filter.open(model, renew=renew)
    try:
        with opened:
            _limit(opened, quota)
            yield opened
    finally:
        if unused is not None:
            remove_unused(unused)


def _lessons(
    model: str,
    renew: bool,
    inputs: _inputs.Inputs,
    as_json: bool | None,
    lesson: Callable[[Filter, SourceDocument], str],
    verb: str,
    quota: Mapping[str, int] | None = None,
    receipt: str | None = None,
) -> None:
    """Teach every document, print the outcome of each or a summary, and write receipts on request."""
    json_lines = _show.wants_json(as_json)
    outcomes: Counter[str] = Counter()
    set_aside: Counter[str] = Counter()
    fingerprints: list[str] = []
    inputs.allow_empty()
    with _opened_to_teach(model, renew, quota) as pupil, _show.progress(verb, _inputs.total(inputs)) as counter:
        for document in _show.tracked(inputs.sources, counter):
            was_set_aside = pupil.is_set_aside(document.content)
            outcome = lesson(pupil, document)
            outcomes[outcome] += 1
            set_aside[outcome] += was_set_aside
            if receipt is not None:
                fingerprints.append(pupil.fingerprint(document.content))
            if json_lines:
                mark = {"set_aside": outcome == "already"} if was_set_aside else {}
                _show.print_json({"path": document.name, "outcome": outcome, **mark})
        if receipt is not None:
            _receipts.write(receipt, pupil, fingerprints)
    inputs.report()
    if not json_lines:
        click.echo(", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.items()) or "no documents")
    for outcome, count in set_aside.items():
        if count:
            _show.note(about_set_aside(outcome, count))


def _lesson_options(function: Any) -> Any:
    """Add the author, the renewal of the certificate, the documents and the output of a lesson."""
    function = click.argument("paths", metavar="PATH...", nargs=-1, type=click.Path(readable=False))(function)
    function = _inputs.table_options(_show.output_options(function))
    return setting("who")(setting("renew")(function))


@click.command(
    cls=Command,
    person=TEACH,
    first=("model", "as_", "who", "user", "users"),
    sections={"Tables": TOPICS["Tables"], "Quotas": ("quota_lessons", "quota_bytes")},
    arguments=_inputs.PATH_ARGUMENT,
    examples=(
        ("surebayes learn -m ~/mail-filter --as spam - < mail", "Teach the filter one message from standard input."),
        (
            "surebayes learn -m ~/mail-filter --as ham ~/Maildir/.Archive wrong.mbox",
            "Teach the filter all messages in a Maildir and a mailbox.",
        ),
        (
            "surebayes learn -m /srv/site --users /srv/users --user ann --as ham - < mail",
            "Teach one person's layer.",
        ),
    ),
)
@model_option()
@option(AS, metavar="LABEL", required=True)
@_lesson_options
@setting("quota_lessons")
@setting("quota_bytes")
@_receipts.option
def learn(
    model: str, as_: str, who: str | None, renew: bool, paths: tuple[str, ...], as_json: bool | None,
    receipt: str | None, **options: Any,
) -> None:  # fmt: skip
    """Teach a filter documents of one class.

    Reports each document as learnt, already known, or moved from another class. By the time a lesson is reported, it is
    on disk. Undo it with `forget` or `rollback`. New lessons make a certificate stale. It is renewed after 100 lessons,
    or after 1% of all documents if that is fewer.
    """
    quota = {name: options.pop(name) for name in ("quota_lessons", "quota_bytes")}
    inputs = _inputs.take_inputs(options, labelled=False, paths=paths)
    _receipts.check(receipt)

    def lesson(pupil: Filter, document: SourceDocument) -> str:
        return pupil.teach(document.content, as_, who)

    _lessons(model, renew, inputs, as_json, lesson, "learning", quota, receipt)


@click.command(
    cls=Command,
    first=("model", "who", "user", "users", "renew"),
    arguments=_inputs.PATH_ARGUMENT,
    examples=(
        ("surebayes forget -m ~/mail-filter - < mail", "Unlearn one message from standard input."),
        ("surebayes forget -m ~/mail-filter wrong.mbox", "Unlearn all messages in a mailbox."),
    ),
)
@model_option()
@_lesson_options
def forget(
    model: str, who: str | None, renew: bool, paths: tuple[str, ...], as_json: bool | None, **options: Any
) -> None:
    """Unlearn documents, exactly as if they had never been learnt.

    Documents that the filter has not learnt are reported, and change nothing. Documents are recognised by their
    content, even if a mail server has changed line endings or header fields.
    """
    inputs = _inputs.take_inputs(options, labelled=False, paths=paths)
    _lessons(model, renew, inputs, as_json, lambda pupil, document: pupil.forget(document.content, who), "forgetting")


@click.command(
    cls=Command,
    first=("model", "who", "user", "users", "renew"),
    arguments=_inputs.PATH_ARGUMENT,
    examples=(
        ("surebayes rescue -m ~/mail-filter - < mail", "Rescue one good message that was flagged as spam."),
        (
            "surebayes rescue -m ~/mail-filter ~/Maildir/.Rescued",
            "Rescue all messages that users have moved to a folder.",
        ),
    ),
)
@model_option()
@_lesson_options
def rescue(
    model: str, who: str | None, renew: bool, paths: tuple[str, ...], as_json: bool | None, **options: Any
) -> None:
    """Correct false alarms: teach a filter the good documents that it flagged.

    Works like `learn --as` with the negative class, and also reports which documents were false alarms. These count
    against an alarm budget, if the filter has one.
    """
    inputs = _inputs.take_inputs(options, labelled=False, paths=paths)
    alarms = 0
    budgets: dict[str, dict[str, Any]] = {}

    def lesson(pupil: Filter, document: SourceDocument) -> str:
        nonlocal alarms, budgets
        rescued = pupil.rescue(document.content, who)
        alarms, budgets = alarms + rescued.alarm, rescued.budgets
        return f"{rescued.outcome}, a false alarm" if rescued.alarm else rescued.outcome

    _lessons(model, renew, inputs, as_json, lesson, "rescuing")
    if _show.wants_json(as_json):
        _show.print_json({"alarms": alarms, "budgets": budgets})
        return
    for label, budget in budgets.items():
        _show.say(budget_sentence(label, budget), indent=2)


def budget_sentence(label: str, budget: dict[str, Any]) -> str:
    """Return the state of an alarm budget in words."""
    state = f"debt {budget['debt']:.2f} of {budget['burst']:g}, lift {budget['lift']:.0%}"
    if not budget["mute"]:
        return f"Budget of {label}: {state}; {budget['left']:,} more alarms before it mutes."
    return (
        f"The budget of {label} is spent: {state}. Alarms are muted and mail passes until {budget['until_heard']:,} "
        "more good documents are known."
    )


def _separation(classes: Sequence[str], scores: Sequence[Sequence[float]], labels: Sequence[str]) -> dict[str, Any]:
    """Return the number of reserved documents, and measures of the separation of two classes by their scores.

    Parameters
    ----------
    classes : sequence of str
        The filter's classes.
    scores, labels : sequence
        The scores and classes of the reserve.

    Examples
    --------
    >>> _separation(["ham", "spam"], [[-1.0], [2.0]], ["ham", "spam"])["figures"]["auc"]["value"]
    1.0
    """
    figures: dict[str, Any] = {}
    if len(classes) == 2 and len(set(labels)) == 2:
        from surebayes.filter.ranking_figures import quick_figures

        measured = quick_figures([label == classes[1] for label in labels], [score for (score,) in scores])
        figures = {name: figure._asdict() for name, figure in measured.items()}
    return {"documents": len(labels), "figures": figures}


def _record(
    done: Mapping[str, int], skipped: int, documents: Mapping[str, int], model: str, held_out: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the JSON record of `surebayes train`.

    Parameters
    ----------
    done : mapping from str to int
        The result of `Filter.train`.
    skipped : int
        Skipped files and rows.
    documents : mapping from str to int
        The numbers of documents by class; the second of two is positive.
    model : str
        The version of the model.
    held_out : mapping
        The result of `_separation`.
    """
    positive = list(documents)[1] if len(documents) == 2 else None
    return {
        **done, "skipped": skipped, "documents": documents, "positive": positive, "model": model, "held_out": held_out
    }  # fmt: skip


def _about_documents(assumed: str | None, headers: HeaderCheck, contradictory: int) -> Iterator[str]:
    """Yield sentences on the documents of a training.

    Parameters
    ----------
    assumed : {"mail", "text", None}
        The default reader, if the command named none.
    headers : HeaderCheck
        The check of their headers.
    contradictory : int
        The number of documents with more than one label.
    """
    if assumed == "mail" and headers.without_header:
        yield no_mail("train a new filter with --reader text")
    if assumed == "text" and headers.with_header:
        yield no_text("train a new filter with --reader mail")
    if contradictory:
        yield (
            f"skipped: {contradictory:,} documents that were given as more than one class. Choose one class, and teach "
            "it with `surebayes learn`."
        )


def _about_filter(model: str, unweighed: int, second_stage: Mapping[str, Any] | None, journal: bool) -> Iterator[str]:
    """Yield sentences on a filter after a training.

    Parameters
    ----------
    model : str
        Its folder, as it was typed.
    unweighed : int
        The result of `Filter.unweighed`.
    second_stage : mapping or None
        The state of its second stages, from `Filter.status`.
    journal : bool
        Whether the training used the journal.

    Examples
    --------
    >>> list(_about_filter("f", 0, None, journal=False))
    ["Without a journal, these documents can't be forgotten, moved or used by `surebayes tune`."]
    """
    if unweighed:
        yield (
            f"{unweighed:,} documents of this filter were learnt by a training that stopped before it fitted the "
            "expert weights. Train on the same documents again."
        )
    elif second_stage is not None and second_stage["tune_helps"] and not second_stage["fitted"]:
        from shlex import quote

        yield (
            "The second stages of this filter were never fitted, because documents came one by one. "
            f"Run `surebayes tune -m {quote(model)}`."
        )
    if not journal:
        yield "Without a journal, these documents can't be forgotten, moved or used by `surebayes tune`."
