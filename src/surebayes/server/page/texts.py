"""All texts of the web page, in the order of its sections.

A text is markup, in which ``{name}`` is replaced by an escaped value. ``one|several`` has a singular and a plural.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

TEXTS: Mapping[str, str] = {
    # ---- frame
    "frame.title": "{title} · surebayes",
    "frame.skip": "Skip to content",
    "frame.places": "Sections",
    "frame.tabs": "{place}: pages",
    "frame.colours": "Colours",
    "frame.auto": "auto",
    "frame.light": "light",
    "frame.dark": "dark",
    "frame.sign-out": "Sign out",
    "place.dashboard": "Overview",
    "place.mail": "Mail",
    "place.promise": "Promise",
    "place.learning": "Learning",
    "place.settings": "Settings",
    "problem.title": "Error",
    "problem.inside": "Internal error. See the server log.",
    "problem.back": 'Back to the <a href="/">start page</a>',
    "sign-in.title": "Sign in",
    "sign-in.token": "Token",
    "sign-in.button": "Sign in",
    "sign-in.about": "Signing in sets a cookie for 12 hours. The administrator of this server has the tokens.",
    "sign-in.wrong": "Unknown token. The file given by --tokens lists the valid tokens.",
    # ---- units
    "unit.message": "message|messages",
    "unit.good message": "good message|good messages",
    "unit.false alarm": "false alarm|false alarms",
    "unit.alarm": "alarm|alarms",
    "unit.lesson": "lesson|lessons",
    "unit.entry": "entry|entries",
    "unit.setting": "setting|settings",
    "unit.verdict": "verdict|verdicts",
    "unit.remembered verdict": "remembered verdict|remembered verdicts",
    "unit.unreviewed verdict": "unreviewed verdict|unreviewed verdicts",
    "unit.day": "day|days",
    "unit.hour": "hour|hours",
    "unit.byte": "byte|bytes",
    "unit.more good message": "more good message|more good messages",
    "unit.process": "process|processes",
    "unit.correction": "correction|corrections",
    "unit.problem": "problem|problems",
    "unit.improvement": "improvement|improvements",
    "when.now": "less than a day",
    # ---- overview
    "dashboard.title": "Overview",
    "dashboard.well": "All is well.",
    "dashboard.must": "{problems} to fix.",
    "dashboard.should": "All is well; {improvements} suggested.",
    "dashboard.today": "Last 24 hours: {messages}, {positives} of them judged {positive}.",
    "dashboard.delivered": "So far: {alarms} among {known} with a known label.",
    "dashboard.positive": "positive",
    "dashboard.compatible": "These figures do not contradict the promise of {rate}.",
    "dashboard.quiet": "No messages in the last 24 hours.",
    "dashboard.next": "What to do next",
    "dashboard.nothing": (
        'No action is needed. The most useful lessons come from <a href="/mail?q=is%3Aunsure">unsure messages</a>.'
    ),
    "dashboard.band": "False alarms so far",
    "dashboard.band-about": (
        "Running audit: the actual rate of false alarms lies in the band, with confidence {confidence}."
    ),
    "dashboard.band-key": "audit",
    "dashboard.promise-key": "promise, {rate}",
    "dashboard.band-empty": (
        '<strong>No correct labels yet</strong>Report some messages in <a href="/mail">Mail</a>: the audit '
        "counts verdicts whose correct label is known."
    ),
    "dashboard.hours": "Verdicts, 24 hours",
    "dashboard.days": "Verdicts, 30 days",
    "dashboard.lessons": "Lessons, 30 days",
    "dashboard.no-lessons": (
        '<strong>No lessons in 30 days</strong>Report a message in <a href="/mail">Mail</a>, or use '
        "<code>surebayes learn</code>."
    ),
    "dashboard.server": "Server",
    "dashboard.learnt": "Learnt",
    "dashboard.model": "Model",
    "dashboard.host": "Host",
    "dashboard.workers": "Workers",
    "dashboard.listeners": "Listeners",
    "dashboard.version": "Version",
    "dashboard.chart": "{total} in {days}",
    "dashboard.chart-hours": "{total} in {hours}",
    "dashboard.chart-none": "none",
    "dashboard.chart-band": "Actual rate of false alarms, by day: now {low} to {high}, {alarms} of {known}",
    "todo.revoked": "The promise for {label} is revoked: {reason}.",
    "todo.revoked-do": "Choose a threshold",
    "todo.drift": "False alarms are more frequent than promised.",
    "todo.drift-do": "See what was delivered",
    "todo.mute": "The alarm budget for {label} is spent: nothing is judged {label} until {missing} arrive.",
    "todo.mute-do": "See the budget",
    "todo.surge": "{share} of recent mail was judged positive; more than {most} is implausible.",
    "todo.surge-do": "Look at these messages",
    "todo.none": "There is no promise yet: nothing limits false alarms.",
    "todo.none-do": "Choose a threshold",
    "todo.reserve": "A promise of {rate} needs {missing}.",
    "todo.reserve-do": "Add good mail",
    "todo.stale": "The model has learnt since the promise for {label} was made: {reason}.",
    "todo.stale-do": "Choose a threshold",
    "todo.shadow": "Shadow mode: mail is judged and logged, but not changed.",
    "todo.shadow-do": "See the settings",
    "todo.forgetful": "Verdicts are not remembered, so they can't be corrected here.",
    "todo.forgetful-do": "See the settings",
    # ---- mail
    "mail.title": "Mail",
    "mail.tab": "Messages",
    "mail.search": "Search mail",
    "mail.search-hint": "Sender, subject, or words such as is:unsure",
    "mail.search-do": "Search",
    "mail.all": "All",
    "mail.unsure": "Unsure",
    "mail.wrong": "Corrected",
    "mail.unreviewed": "Unreviewed",
    "mail.help": "Search words",
    "mail.help-from": "sender",
    "mail.help-subject": "subject",
    "mail.help-is": "verdict or state",
    "mail.help-person": "recipient",
    "mail.help-since": "age or date in UTC; also <code>until:</code> and <code>on:</code>",
    "mail.help-quotes": "a phrase",
    "mail.help-plain": "sender or subject",
    "mail.keys": "Keys",
    "mail.keys-title": "Keys in Mail",
    "mail.keys-move": "next, previous message",
    "mail.keys-open": "open the message",
    "mail.keys-select": "select the message",
    "mail.keys-report": "report the selected messages, or the current one, as {label}",
    "mail.keys-undo": "undo the last report",
    "mail.keys-search": "search",
    "mail.keys-help": "show the keys",
    "mail.keys-close": "close the message",
    "mail.close": "Close",
    "mail.list": "Messages",
    "mail.select": "Select: {subject}",
    "mail.select-all": "Select all",
    "mail.report": "Report as",
    "mail.report-as": "Report as {label}",
    "mail.reported": "Reported {messages} as {label}.",
    "mail.reported-noted": "{recorded} without content: label recorded, nothing learnt.",
    "mail.reported-none": "Select messages first.",
    "mail.most": "Report at most {most} messages at once. Got {got}.",
    "mail.last": "Last report: {messages} as {label}.",
    "mail.undo": "Undo",
    "mail.undone": "Undone: {restored}.",
    "mail.undone-changed": "{changed} changed since the report: not undone.",
    "mail.no-report": "The form is missing its report. Load the page again.",
    "mail.no-number": "The form is missing the verdict number. Load the page again.",
    "mail.no-address": "The address is missing the verdict number. Use /mail/message?number=1.",
    "mail.no-subject": "(no subject)",
    "mail.no-sender": "unknown sender",
    "mail.for": "for {person}",
    "mail.correct": "correct: {label}",
    "mail.confirmed": "confirmed",
    "mail.older": "Older messages",
    "mail.further": "Search older messages",
    "mail.end": "End of the list",
    "mail.none": (
        '<strong>No matching messages</strong>Remove a search word, or <a href="/mail">show all messages</a>.'
    ),
    "mail.none-unsure": "<strong>Nothing to review</strong>Every remembered message is reviewed.",
    "mail.empty": (
        "<strong>No messages yet</strong>Verdicts of this server appear here. Connect your mail server, or send "
        "a message with <code>spamc</code> or to <code>/v1/classify</code>. To judge a message without storing it, <a "
        'href="/mail/check">check it here</a>.'
    ),
    "mail.forgetful": (
        "<strong>Verdicts are not remembered</strong>The server was started with <code>--no-remember</code>, or "
        "<code>remember</code> is off in the settings. If it is on, senders, subjects and messages are stored "
        "for a limited time, readable by everyone who may read the folder."
    ),
    "mail.nothing-open": "Open a message to see why it got its verdict.",
    "message.title": "Message",
    "message.back": "Back to the list",
    "message.judged": "Judged",
    "message.judged-text": "{time}; score {score}, threshold {threshold}",
    "message.person": "Person",
    "message.id": "Message-ID",
    "message.label": "Correct label",
    "message.label-text": "<strong>{label}</strong>, {time}",
    "message.label-by": "by {who}",
    "message.quiet": "no complaint",
    "message.unreviewed": "unreviewed",
    "message.clear": "Clear label",
    "message.theirs": "{label}, {score}",
    "message.theirs-of": "{label}, {score} of {threshold}",
    "message.why": "Why",
    "message.why-text": (
        "Today the verdict would be <strong>{label}</strong>: score {score}, {distance} {side} the threshold."
    ),
    "message.above": "above",
    "message.below": "below",
    "message.turn-none": "Corrections can't reverse this verdict.",
    "message.turn": "{turns} would reverse this verdict.",
    "message.probability": "The probability of {positive} is {probability}.",
    "message.for": "Evidence for {positive}",
    "message.against": "Evidence against it",
    "message.no-terms": "none",
    "message.views": "Shares of views and their terms",
    "message.no-why": "<strong>No explanation</strong>The message itself was not stored.",
    "message.no-why-size": "It was too large, or was judged before this server remembered verdicts.",
    "message.no-why-off": "This server was started with <code>--no-remember</code>.",
    "message.cleared": "Label cleared: {outcome}.",
    "outcome.learnt": "Learnt as {label}.",
    "outcome.already": "Already known as {label}.",
    "outcome.moved": "Moved to {label}.",
    "outcome.waiting": "Kept on disk while the database is unavailable; sent when it is available again.",
    "outcome.forgotten": "Forgotten.",
    "outcome.never": "This message was never learnt.",
    "cleared.forgotten": "the lesson is forgotten",
    "cleared.moved": "the earlier label is restored",
    "cleared.already": "the message stays learnt, as before",
    "cleared.noted": "nothing had been learnt",
    "cleared.unknown": "there was none",
    "cleared.waiting": "it is kept on disk until the database is available again",
    # ---- evidence
    "evidence.verdict": "Verdict",
    "evidence.views": "Views",
    "evidence.share": "Contribution of each view",
    "evidence.for": "for {positive}",
    "evidence.against": "against",
    "evidence.prior": "prior",
    "evidence.layers": "Layers",
    "evidence.effect": "Effect of the person's lessons",
    "evidence.effect-text": (
        "Shared filter: <strong>{label}</strong>, score {base}. With the person's lessons: {score}."
    ),
    "evidence.view": "View",
    "evidence.shared": "Shared",
    "evidence.personal": "Lessons",
    "evidence.largest": "Largest changes:",
    "evidence.text": "Text",
    "evidence.text-about": "Text of the message",
    "evidence.cut": "The page shows the first 40,000 characters.",
    "novelty.words": ("Unlike all learnt messages, mostly in its words: {share} of the known ones are as unfamiliar."),
    "novelty.source": (
        "Unlike all learnt messages, mostly in its header and addresses: {share} of the known ones are as unfamiliar."
    ),
    "evidence.truncated": "This message is larger than the limit: only its beginning was judged.",
    "evidence.score": "score; {positive} above {threshold}",
    "evidence.probability": "probability of {positive}",
    "evidence.no-turn": "corrections can't reverse the verdict",
    "evidence.turn": "correction would reverse the verdict|corrections would reverse the verdict",
    # ---- check a message
    "check.title": "Check a message",
    "check.another": "Check another",
    "check.learnt": "Learnt as <strong>{label}</strong>.",
    "check.forget": "Forget",
    "check.again": (
        'To report a message of this size, <a href="/mail/check">choose its file again</a> and report it there.'
    ),
    "check.about": (
        "Paste the source of a message, or drop or choose a file. The message is judged and explained, but not stored."
    ),
    "check.source": "Source",
    "check.placeholder": "From: …\nSubject: …\n\n…",
    "check.file": "or file",
    "check.do": "Check",
    "check.most": "At most {size}.",
    "check.unreadable": "The message in the form can't be read. Paste it again, or choose its file.",
    "check.missing": "The form has no message. Paste one, or choose a file.",
    # ---- promise
    "promise.title": "Promise",
    "promise.tab": "Promised and delivered",
    "promise.promised": "Promise",
    "promise.promised-label": "Promise: {label}",
    "promise.none": "none",
    "promise.empty": (
        "<strong>No certificate yet</strong>Choose a limit on false alarms under <a "
        'href="/promise/threshold">Threshold</a>, or with <code>surebayes calibrate</code>.'
    ),
    "promise.renewed": (
        "The model has learnt since then. Renewal: {renewed}. Until then the threshold is unchanged; <a "
        'href="/promise/threshold">choose one now</a>.'
    ),
    "promise.stale": '{reason}. <a href="/promise/threshold">Choose a threshold</a>.',
    "promise.threshold": "Threshold",
    "promise.threshold-text": "score above {threshold} is {label}",
    "promise.based": "Based on",
    "promise.based-text": "{negatives} that were never learnt, at most {allowed} above the threshold",
    "promise.recall": "Recall",
    "promise.recall-text": "{recall} of {label} ({low} to {high})",
    "promise.aside": "Set aside",
    "promise.aside-text": "{first} to {last}",
    "promise.age": "Age",
    "promise.delivered": "Delivered so far: {label}",
    "promise.known": "Known good",
    "promise.presumed": "Including presumed good",
    "promise.rate-text": "{alarms} in {messages}, actual rate {low} to {high}",
    "promise.precision": "Precision",
    "promise.precision-text": "{right} of {given} reviewed, actual share {low} to {high}",
    "promise.valid": "Valid at all times, also after further lessons, with confidence {confidence}.",
    "promise.nothing-delivered": "Delivered so far",
    "promise.budget": "Alarm budget: {label}",
    "promise.muted": "muted",
    "promise.raised": "threshold raised",
    "promise.no-debt": "no debt",
    "promise.spent": "{debt} of {burst} alarms spent",
    "promise.debt": "Debt",
    "promise.debt-text": "{debt} of {burst} alarms",
    "promise.lift": "Lift",
    "promise.lift-text": "{lift}: the threshold is raised",
    "promise.in-flight": "In flight",
    "promise.so-far": "So far",
    "promise.so-far-text": "{alarms} in {messages}",
    "promise.resume": "Alarms resume after",
    "promise.drift": "Drift",
    "promise.broken": "promise broken",
    "promise.no-drift": "no drift",
    "promise.drift-curve": "false alarms among known good mail",
    "promise.drift-line": "promise: {rate}",
    "promise.evidence": (
        "Evidence of drift {evidence}; the promise counts as broken at {line}. If only mistakes are reported, "
        "the evidence is overstated."
    ),
    "promise.no-data": (
        "<strong>Not enough data yet</strong>Drift needs a promise, remembered verdicts and some correct labels: "
        'report messages in <a href="/mail">Mail</a>.'
    ),
    "promise.alarms-chart": "{alarms} in {messages}; the promise allows {allowed}",
    "threshold.title": "Threshold",
    "threshold-confirm.title": "Use this threshold?",
    "threshold.empty": (
        "<strong>No messages are set aside</strong>A promise needs good mail that was never learnt. Training "
        "sets a share aside (<code>surebayes train --reserve 0.3</code>); <code>surebayes calibrate --ham "
        "PATH</code> adds more."
    ),
    "threshold.about": "Drag the line: the figures show the effect of each threshold on the messages set aside.",
    "threshold.figure": "threshold; a higher score is {positive}",
    "threshold.rate": "false alarms at most, with confidence {confidence}",
    "threshold.recall": "of {positive} found",
    "threshold.above": "of {negatives} set aside above the threshold",
    "threshold.would": "of the latest {messages} would have been {positive}",
    "threshold.wrong": "of these are known to be good",
    "threshold.positives": "{positive}, {messages}",
    "threshold.negatives": "good mail, {messages}",
    "threshold.now": "current threshold, {threshold}",
    "threshold.heights": "bar heights are square roots of counts",
    "threshold.slider": "Threshold, from strict to lenient",
    "threshold.value": "at most {rate} false alarms, {recall} found",
    "threshold.confidence": "Confidence",
    "threshold.class": "Class",
    "threshold.show": "Show",
    "threshold.use": "Use this threshold …",
    "threshold.roc": "ROC curve at low false-alarm rates",
    "threshold.roc-about": (
        "The share of {positive} found, against the false-alarm rate that {negatives} certify with confidence "
        "{confidence}."
    ),
    "threshold.table": "As a table",
    "threshold.table-threshold": "Threshold",
    "threshold.table-above": "Good mail above",
    "threshold.table-rate": "False alarms at most",
    "threshold.table-found": "Found",
    "threshold.histogram": "Scores of {negatives} below the line and of {positives}, {positive}, above it",
    "threshold.roc-chart": "Recall against the false-alarm rate",
    "threshold.roc-axis": "{rate}% false alarms",
    "threshold.sure": "At most {rate} of good mail will be judged {positive}, with confidence {confidence}.",
    "threshold.sure-threshold": "{threshold}, now {now}",
    "threshold.sure-recall": "{recall} of the {positive} set aside",
    "threshold.sure-based": "{negatives} that were never learnt, {above} above the threshold",
    "threshold.sure-about": (
        "The threshold applies to all clients of this filter at once. To restore the previous one, use <a "
        'href="/learning/versions">Versions</a>.'
    ),
    "threshold.calibrate": "Calibrate",
    "threshold.cancel": "Cancel",
    "threshold.done": "Calibrated: {promise}.",
    "threshold.no-mail": (
        "No messages are set aside, so no threshold can be certified. Set some aside with `surebayes calibrate "
        "--ham PATH`."
    ),
    "threshold.no-rate": "The form is missing the rate or the confidence. Load the page again.",
    "compare.title": "Compare",
    "compare.empty": (
        "<strong>No other filter found</strong>Verdicts are compared with those in <code>X-Spam-Status</code>, "
        "<code>X-Spamd-Result</code> and <code>X-Bogosity</code> of the same messages: let the other filter run "
        "first."
    ),
    "compare.filter": "Other filter",
    "compare.mails": "Messages",
    "compare.both": "Both positive",
    "compare.neither": "Neither",
    "compare.only-ours": "Only here",
    "compare.only-theirs": "Only there",
    "compare.known": "Correct label known",
    "compare.alarms": "False alarms, here / there",
    "compare.misses": "Misses, here / there",
    "compare.differ": "Disagreements with {field}",
    "compare.agree": "Agreements with {field}",
    "compare.to-differ": "Disagreements",
    "compare.to-agree": "Agreements",
    "compare.none": "None.",
    # ---- learning
    "learning.title": "Learning",
    "learning.tab": "Lessons",
    "learning.learnt": "Learnt",
    "learning.learnt-label": "{label}",
    "learning.needed": "Good messages needed",
    "learning.needed-rate": "False alarms",
    "learning.needed-most": "at most {rate}",
    "learning.needed-count": "Needed",
    "learning.needed-missing": "Missing",
    "learning.enough": "enough",
    "learning.needed-about": (
        "The numbers are for confidence 95%; {have} set aside. <code>surebayes calibrate --ham PATH</code> adds more."
    ),
    "learning.unsure": (
        'The filter learns fastest from <a href="/mail?q=is%3Aunsure">messages that it is unsure of</a>.'
    ),
    "learning.authors": "Authors of lessons",
    "learning.author": "Author",
    "learning.last": "Last lesson",
    "learning.lessons": "Lessons",
    "learning.unknown": "unknown",
    "learning.authors-about": "Only the lessons listed below are counted.",
    "learning.list": "Journal",
    "learning.number": "Number",
    "learning.time": "Time",
    "learning.action": "Action",
    "learning.class": "Class",
    "learning.message": "Message",
    "learning.undo": "undo",
    "learning.undo-about": "undo lesson {version}",
    "learning.older": "Older lessons",
    "learning.empty": (
        "<strong>No lessons yet</strong>Train the filter with <code>surebayes train --ham PATH --spam "
        'PATH</code>, or report messages in <a href="/mail">Mail</a>.'
    ),
    "learning.undone": "Lesson {version} undone: {outcome}.",
    "learning.no-version": "The form is missing the lesson number. Load the page again.",
    "versions.title": "Versions",
    "versions-confirm.title": "Roll back?",
    "versions.now": "Current version {now}",
    "versions.from": "From version",
    "versions.to": "to version",
    "versions.show": "Show changes",
    "versions.version": "Version",
    "versions.change": "Change",
    "versions.since": "changes since",
    "versions.roll-back": "roll back",
    "versions.roll-back-to": "to {version}",
    "versions.actions": "Actions",
    "versions.empty": (
        "<strong>No versions yet</strong>Every training and calibration adds one. Each <a "
        'href="/learning">lesson</a> is a version too.'
    ),
    "versions.changes": "Changes",
    "versions.changes-between": "Changes from {first} to {last}",
    "versions.changed": "{messages} changed",
    "versions.learnt": "; {count} learnt as {label}",
    "versions.forgotten": "; {count} forgotten as {label}",
    "versions.settings": "; {settings} changed.",
    "versions.before": "Before",
    "versions.after": "After",
    "versions.latest": "The list shows the latest {count}.",
    "versions.sure": "Return to version {version}, and undo all later changes.",
    "versions.sure-about": "The rollback is a new entry in the history, and can be undone in the same way.",
    "versions.do": "Roll back",
    "versions.cancel": "Cancel",
    "versions.done": "Returned to version {version}: {entries} undone.",
    "versions.no-version": "The form is missing the version. Load the page again.",
    "versions.no-address": "The address is missing the version. Use /learning/versions/confirm?version=1.",
    # ---- settings
    "settings.title": "Settings",
    "settings.tab": "Server",
    "settings.version": "Version",
    "settings.hosts": "Hosts",
    "settings.hosts-waiting": "{lessons} wait on this host for the database.",
    "settings.host": "Host",
    "settings.host-state": "Lessons",
    "settings.host-row": "Last row",
    "settings.host-seconds": "Seconds since report",
    "settings.host-equal": "same",
    "settings.host-behind": "behind",
    "settings.host-different": "different",
    "settings.host-not-erased": ", last erasure missing",
    "settings.server": "Server",
    "settings.folder": "Folder",
    "settings.size": "Size",
    "settings.workers": "Workers",
    "settings.mode": "Mode",
    "settings.mode-shadow": "shadow: mail is judged and logged, but not changed",
    "settings.mode-tag": "mail is marked",
    "settings.mode-stopped": "mail is not marked while the surge lasts",
    "settings.change": (
        "To change these values, edit the settings file or the options of <code>surebayes serve</code>, and restart "
        "the server."
    ),
    "settings.retention": "Remembered verdicts",
    "settings.kept": "Kept",
    "settings.kept-text": "{days}, at most {most} and {bytes}",
    "settings.remembered": "Now",
    "settings.remembered-text": "{count}, {bytes}",
    "settings.presumed": "Presumed good after",
    "settings.off": "off",
    "settings.tokens": "Tokens",
    "settings.no-tokens": "No token file: local programs have full access, remote programs none.",
    "settings.tokens-file": "File",
    "settings.role": "Role",
    "settings.person": "Person",
    "settings.tokens-number": "Tokens",
    "settings.everybody": "everyone",
    "settings.tokens-about": "Add or remove lines of the file; changes take effect with the next request.",
    "people.title": "People",
    "people-confirm.title": "Delete a person?",
    "people.quota": "Quota per person: {lessons}, {size}.",
    "people.no-quota": "no limit",
    "people.person": "Person",
    "people.lessons": "Lessons",
    "people.last": "Last lesson",
    "people.size": "Size",
    "people.budget": "Budget",
    "people.budget-text": "{label}: {debt} of {burst}",
    "people.muted": "muted",
    "people.shared": "shared",
    "people.mail": "mail",
    "people.mail-of": "of {person}",
    "people.delete": "delete",
    "people.actions": "Actions",
    "people.more": "More people",
    "people.none": (
        "<strong>No people yet</strong>A person's first lesson creates their layer: add <code>?user=NAME</code> to the "
        "request that teaches it."
    ),
    "people.off": (
        "<strong>Personal layers are off</strong>Start the server with <code>--users DIR</code> to give each "
        "person a layer on the shared filter."
    ),
    "people.sure": "Delete the layer of {name} and all remembered verdicts on their mail.",
    "people.sure-about": "This cannot be undone. The lessons of the shared filter remain.",
    "people.do": "Delete {name}",
    "people.cancel": "Cancel",
    "people.done": "Deleted {name}: {layer} and {remembered}.",
    "people.layer": "their layer",
    "people.no-layer": "no layer",
    "people.no-address": "The address is missing the person. Use /settings/people/confirm?name=ann@example.org.",
    "people.no-name": "The form is missing the person. Load the page again.",
    "erase.title": "Erase",
    "erase.about": (
        "Erase messages from the model, and overwrite their content in the journal and in the remembered "
        "verdicts. Each row keeps its fingerprint, class, time and author."
    ),
    "erase.ids": "Message-IDs, one per line",
    "erase.sure": "This cannot be undone",
    "erase.do": "Erase",
    "erase.copies": "Backups and copies of the folder are not erased.",
    "erase.no-id": "No Message-ID given. Enter it as in the header: <...@...>",
    "erase.not-sure": "Erasing cannot be undone. Tick the box to confirm.",
    "erase.done": (
        "Found {messages} in the model; {forgotten} forgotten, {released} no longer set aside; content of {rows} "
        "journal rows overwritten; {remembered} erased."
    ),
}


def text(name: str, /, **values: Any) -> Markup:
    """Return a text with its values filled in.

    Examples
    --------
    >>> print(text("mail.for", person="<ann>"))
    for &lt;ann&gt;
    """
    return Markup(TEXTS[name]).format(**values)


def plain(name: str, /, **values: Any) -> str:
    """Return a text for a notice or an attribute, without markup and with unescaped values.

    Examples
    --------
    >>> plain("mail.report-as", label="spam")
    'Report as spam'
    """
    return TEXTS[name].format(**values)


def unit(number: int, name: str) -> str:
    """Return a number with its unit.

    Examples
    --------
    >>> unit(12345, "message"), unit(1, "message"), unit(2, "entry")
    ('12,345 messages', '1 message', '2 entries')
    """
    one, _, several = TEXTS[f"unit.{name}"].partition("|")
    return f"{number:,} {one if number == 1 else several}"


def plural(number: int, name: str) -> str:
    """Return the form of a text for a number.

    Examples
    --------
    >>> plural(1, "unit.lesson"), plural(7, "unit.lesson")
    ('lesson', 'lessons')
    """
    one, _, several = TEXTS[name].partition("|")
    return one if number == 1 else several
