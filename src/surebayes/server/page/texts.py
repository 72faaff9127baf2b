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
    "frame.places": "Main navigation",
    "frame.tabs": "{place} pages",
    "frame.colours": "Colour scheme",
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
    "sign-in.about": "Signing in sets a cookie that lasts 12 hours. Ask this server's administrator for a token.",
    "sign-in.wrong": "Unknown token. Ask this server's administrator for a valid one.",
    # ---- units
    "unit.message": "message|messages",
    "unit.good message": "good message|good messages",
    "unit.false alarm": "false alarm|false alarms",
    "unit.alarm": "alarm|alarms",
    "unit.reviewed alarm": "reviewed alarm|reviewed alarms",
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
    "dashboard.today": "Last 24 hours: {messages}, {positives} judged {positive}.",
    "dashboard.delivered": "So far, {alarms} among {known} whose correct label is known.",
    "dashboard.positive": "positive",
    "dashboard.compatible": "This is consistent with the promise of {rate}.",
    "dashboard.quiet": "No messages in the last 24 hours.",
    "dashboard.next": "What to do next",
    "dashboard.nothing": (
        "There is nothing you need to do. To teach the filter most effectively, report a few <a "
        'href="/mail?q=is%3Aunsure">unsure messages</a>.'
    ),
    "dashboard.band": "False alarms so far",
    "dashboard.band-about": (
        "Running audit: with {confidence} confidence, the true false-alarm rate lies within the band."
    ),
    "dashboard.band-key": "range of the true rate",
    "dashboard.promise-key": "promise: {rate}",
    "dashboard.band-empty": (
        '<strong>No correct labels yet</strong>Report some messages in <a href="/mail">Mail</a>; the audit only counts '
        "messages whose correct label is known."
    ),
    "dashboard.hours": "Verdicts in the last 24 hours",
    "dashboard.days": "Verdicts in the last 30 days",
    "dashboard.lessons": "Lessons in the last 30 days",
    "dashboard.no-lessons": (
        '<strong>No lessons in the last 30 days</strong>Report a message in <a href="/mail">Mail</a>, or use '
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
    "dashboard.chart-band": "True false-alarm rate by day; currently {low} to {high} ({alarms} in {known})",
    "todo.revoked": "The promise for {label} is revoked: {reason}.",
    "todo.revoked-do": "Choose a threshold",
    "todo.drift": "False alarms are more frequent than promised.",
    "todo.drift-do": "Compare with the promise",
    "todo.mute": (
        "The alarm budget for {label} is spent. No message will be judged {label} until the filter has received "
        "{missing}."
    ),
    "todo.mute-do": "See the budget",
    "todo.surge": "{share} of recent mail was judged positive; any share above {most} is implausible.",
    "todo.surge-do": "Look at these messages",
    "todo.none": "There is no promise yet, so nothing limits false alarms.",
    "todo.none-do": "Choose a threshold",
    "todo.reserve": "A promise of at most {rate} false alarms needs {missing}.",
    "todo.reserve-do": "See how to add more",
    "todo.stale": "The promise for {label} is out of date: {reason}.",
    "todo.stale-do": "Choose a threshold",
    "todo.shadow": "Shadow mode: mail is judged and logged, but not changed.",
    "todo.shadow-do": "See the settings",
    "todo.forgetful": "Verdicts are not remembered, so they can't be corrected here.",
    "todo.forgetful-do": "See the settings",
    # ---- mail
    "mail.title": "Mail",
    "mail.tab": "Messages",
    "mail.search": "Search mail",
    "mail.search-hint": "Sender, subject, or a term such as is:unsure",
    "mail.search-do": "Search",
    "mail.all": "All",
    "mail.unsure": "Unsure",
    "mail.wrong": "Corrected",
    "mail.unreviewed": "Unreviewed",
    "mail.help": "Search syntax",
    "mail.help-from": "sender",
    "mail.help-subject": "subject",
    "mail.help-is": "verdict or state",
    "mail.help-person": "recipient",
    "mail.help-since": "age, or date in UTC; see also <code>until:</code> and <code>on:</code>",
    "mail.help-quotes": "a phrase",
    "mail.help-plain": "a word in the sender or subject",
    "mail.keys": "Shortcuts",
    "mail.keys-title": "Keyboard shortcuts",
    "mail.keys-move": "next or previous message",
    "mail.keys-open": "open the message",
    "mail.keys-select": "select the message",
    "mail.keys-report": "report the selected messages, or the current one, as {label}",
    "mail.keys-undo": "undo the last report",
    "mail.keys-search": "search",
    "mail.keys-help": "show this list",
    "mail.keys-close": "close the message",
    "mail.close": "Close",
    "mail.list": "Messages",
    "mail.select": "Select: {subject}",
    "mail.select-all": "Select all",
    "mail.report": "Report as",
    "mail.report-as": "Report as {label}",
    "mail.reported": "Reported {messages} as {label}.",
    "mail.reported-noted": "Labelled but not learnt, because the content was not stored: {recorded}.",
    "mail.reported-none": "Select messages first.",
    "mail.most": "You can report at most {most} messages at once. You selected {got}.",
    "mail.last": "Last report: {messages} as {label}.",
    "mail.undo": "Undo",
    "mail.undone": "Report undone for {restored}.",
    "mail.undone-changed": "Not undone because of later changes: {changed}.",
    "mail.no-report": "The form does not say which report to undo. Reload the page.",
    "mail.no-number": "The form is missing the verdict number. Reload the page.",
    "mail.no-address": "The address is missing the verdict number. It should look like /mail/message?number=1.",
    "mail.no-subject": "(no subject)",
    "mail.no-sender": "unknown sender",
    "mail.for": "for {person}",
    "mail.correct": "corrected to {label}",
    "mail.confirmed": "confirmed",
    "mail.older": "Older messages",
    "mail.further": "Search further back",
    "mail.end": "End of the list",
    "mail.none": '<strong>No matching messages</strong>Remove a search term, or <a href="/mail">show all messages</a>.',
    "mail.none-unsure": "<strong>Nothing to review</strong>Every remembered message has been reviewed.",
    "mail.empty": (
        "<strong>No messages yet</strong>This server's verdicts will appear here. Connect your mail server, or send a "
        "message with <code>spamc</code> or to <code>/v1/classify</code>. To judge a message without storing it, <a "
        'href="/mail/check">check it here</a>.'
    ),
    "mail.forgetful": (
        "<strong>Verdicts are not remembered</strong>The server was started with <code>--no-remember</code>, or "
        "<code>remember</code> is off in the settings. When remembering is on, senders, subjects and messages are "
        "stored for a limited time, and anyone with access to the folder can read them."
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
    "message.quiet": "presumed good (no complaint)",
    "message.unreviewed": "unreviewed",
    "message.clear": "Clear label",
    "message.theirs": "{label}, score {score}",
    "message.theirs-of": "{label}, score {score}, threshold {threshold}",
    "message.why": "Why this verdict",
    "message.why-text": (
        "With the current model, the verdict would be <strong>{label}</strong>: score {score}, {distance} {side} the "
        "threshold."
    ),
    "message.above": "above",
    "message.below": "below",
    "message.turn-none": "Corrections can't reverse this verdict.",
    "message.turn": "{turns} would reverse this verdict.",
    "message.probability": "The probability of {positive} is {probability}.",
    "message.for": "Evidence for {positive}",
    "message.against": "Evidence against {positive}",
    "message.no-terms": "none",
    "message.views": "Contributions of views and their terms",
    "message.no-why": "<strong>No explanation</strong>The message itself was not stored.",
    "message.no-why-size": "It was too large, or was judged before this server began to remember verdicts.",
    "message.no-why-off": "This server was started with <code>--no-remember</code>.",
    "outcome.learnt": "Learnt as {label}.",
    "outcome.already": "Already known as {label}.",
    "outcome.moved": "Relabelled as {label}.",
    "outcome.waiting": "Saved on disk; it will be sent when the database is available again.",
    "outcome.forgotten": "Forgotten.",
    "outcome.never": "This message was never learnt.",
    "cleared.forgotten": "Label cleared, and the lesson forgotten.",
    "cleared.moved": "Label cleared, and the earlier label restored.",
    "cleared.already": "Label cleared. The message had been learnt before, and stays learnt.",
    "cleared.noted": "Label cleared. There was no lesson to undo.",
    "cleared.unknown": "This message had no label.",
    "cleared.waiting": "Label cleared. The change is saved on disk until the database is available again.",
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
    "evidence.shared": "Shared filter",
    "evidence.personal": "Change due to lessons",
    "evidence.largest": "Largest changes:",
    "evidence.text": "Text",
    "evidence.text-about": "Text of the message",
    "evidence.cut": "Only the first 40,000 characters are shown.",
    "novelty.words": (
        "This message is unlike anything the filter has learnt, mainly in its words: only {share} of known messages "
        "are as unfamiliar."
    ),
    "novelty.source": (
        "This message is unlike anything the filter has learnt, mainly in its header and addresses: only {share} of "
        "known messages are as unfamiliar."
    ),
    "evidence.truncated": "This message exceeds the size limit, so only its beginning was judged.",
    "evidence.score": "score ({positive} if above {threshold})",
    "evidence.probability": "probability of {positive}",
    "evidence.no-turn": "corrections can't reverse the verdict",
    "evidence.turn": "correction would reverse the verdict|corrections would reverse the verdict",
    # ---- check a message
    "check.title": "Check a message",
    "check.another": "Check another",
    "check.learnt": "Learnt as <strong>{label}</strong>.",
    "check.forget": "Forget",
    "check.again": (
        'This message is too large to report from here. To report it, <a href="/mail/check">choose its file again</a>, '
        "and use the report buttons there."
    ),
    "check.about": (
        "Paste the source of a message, or drop or choose a file. <strong>Check</strong> judges and explains "
        "the message without storing it."
    ),
    "check.source": "Source",
    "check.placeholder": "From: …\nSubject: …\n\n…",
    "check.file": "or choose a file",
    "check.do": "Check",
    "check.most": "Maximum size: {size}.",
    "check.unreadable": "The message in the form can't be read. Paste it again, or choose its file.",
    "check.missing": "No message was given. Paste one, or choose a file.",
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
        "The model has learnt more since this promise was made. It will be renewed {renewed}. Until then, the "
        'threshold stays the same; you can also <a href="/promise/threshold">choose one now</a>.'
    ),
    "promise.stale": 'This promise no longer holds: {reason}. <a href="/promise/threshold">Choose a threshold</a>.',
    "promise.threshold": "Threshold",
    "promise.threshold-text": "scores above {threshold} are judged {label}",
    "promise.based": "Based on",
    "promise.based-text": "{negatives} never learnt; at most {allowed} may be above the threshold",
    "promise.recall": "Recall",
    "promise.recall-text": "{recall} of {label} found ({low} to {high})",
    "promise.aside": "Dates of these messages",
    "promise.aside-text": "{first} to {last}",
    "promise.age": "Age of the newest",
    "promise.delivered": "Delivered so far: {label}",
    "promise.known": "Known good messages",
    "promise.presumed": "Including messages presumed good",
    "promise.rate-text": "{alarms} in {messages}; true rate {low} to {high}",
    "promise.precision": "Precision",
    "promise.precision-text": "{right} of {given} correct; true precision {low} to {high}",
    "promise.valid": "With {confidence} confidence, these bounds hold at all times, whatever the filter learns.",
    "promise.nothing-delivered": "Delivered so far",
    "promise.budget": "Alarm budget: {label}",
    "promise.muted": "muted",
    "promise.raised": "threshold raised",
    "promise.no-debt": "no debt",
    "promise.spent": "{debt} of {burst} alarms spent",
    "promise.debt": "Debt",
    "promise.debt-text": "{debt} of {burst} alarms",
    "promise.lift": "Lift",
    "promise.lift-text": "{lift} of the budget is spent, so the threshold is raised",
    "promise.in-flight": "Awaiting review",
    "promise.so-far": "So far",
    "promise.so-far-text": "{alarms} in {messages}",
    "promise.resume": "Alarms resume after",
    "promise.drift": "Drift",
    "promise.broken": "promise broken",
    "promise.no-drift": "no drift detected",
    "promise.drift-curve": "false alarms among known good mail",
    "promise.drift-line": "promise: {rate}",
    "promise.evidence": (
        "Evidence of drift: {evidence}. The promise counts as broken when it reaches {line}. If only mistakes are "
        "reported, the evidence is overstated."
    ),
    "promise.no-data": (
        "<strong>Not enough data yet</strong>Detecting drift requires a promise, remembered verdicts and some correct "
        'labels. Report messages in <a href="/mail">Mail</a>.'
    ),
    "promise.alarms-chart": "{alarms} in {messages}; the promise allows {allowed}",
    "threshold.title": "Threshold",
    "threshold-confirm.title": "Use this threshold?",
    "threshold.empty": (
        "<strong>No messages are set aside</strong>A promise needs good mail that was never learnt. Training sets a "
        "share of it aside (<code>surebayes train --reserve 0.3</code>); <code>surebayes calibrate --ham PATH</code> "
        "adds more."
    ),
    "threshold.about": "Drag the line to see how each threshold would treat the messages set aside.",
    "threshold.figure": "threshold (higher scores are judged {positive})",
    "threshold.rate": "maximum false-alarm rate, with {confidence} confidence",
    "threshold.recall": "of {positive} found",
    "threshold.above": "above the threshold, of {negatives} set aside",
    "threshold.would": "of the latest {messages} would have been judged {positive}",
    "threshold.wrong": "known good messages among these",
    "threshold.positives": "{positive}: {messages}",
    "threshold.negatives": "good mail: {messages}",
    "threshold.now": "current threshold: {threshold}",
    "threshold.heights": "bar heights show square roots of counts",
    "threshold.slider": "Threshold, from strict to lenient",
    "threshold.value": "at most {rate} false alarms, {recall} found",
    "threshold.confidence": "Confidence",
    "threshold.class": "Class",
    "threshold.show": "Show",
    "threshold.use": "Use this threshold …",
    "threshold.roc": "ROC curve at low false-alarm rates",
    "threshold.roc-about": (
        "The share of {positive} found at each false-alarm rate that {negatives} can certify with {confidence} "
        "confidence."
    ),
    "threshold.table": "As a table",
    "threshold.table-threshold": "Threshold",
    "threshold.table-above": "Good mail above it",
    "threshold.table-rate": "Max. false-alarm rate",
    "threshold.table-found": "Found",
    "threshold.histogram": (
        "Histogram of scores: {negatives} drawn below the axis, and {positives} labelled {positive} above it"
    ),
    "threshold.roc-chart": "Recall against the false-alarm rate",
    "threshold.roc-axis": "{rate}% false alarms",
    "threshold.sure": "With {confidence} confidence, at most {rate} of good mail will be judged {positive}.",
    "threshold.sure-threshold": "{threshold} (currently {now})",
    "threshold.sure-recall": "{recall} of the {positive} set aside is found",
    "threshold.sure-based": "{negatives} never learnt; {above} above the threshold",
    "threshold.sure-about": (
        "The threshold takes effect immediately for all clients of this filter. To restore the previous one, use <a "
        'href="/learning/versions">Versions</a>.'
    ),
    "threshold.calibrate": "Calibrate",
    "threshold.cancel": "Cancel",
    "threshold.done": "Calibrated: {promise}.",
    "threshold.no-mail": (
        "No messages are set aside, so no threshold can be certified. Set some aside with `surebayes calibrate "
        "--ham PATH`."
    ),
    "threshold.no-rate": "The form is missing the rate or the confidence. Reload the page.",
    "compare.title": "Compare",
    "compare.empty": (
        "<strong>No other filter found</strong>surebayes compares its verdicts with another filter's verdicts in the "
        "fields <code>X-Spam-Status</code>, <code>X-Spamd-Result</code> and <code>X-Bogosity</code> of the same "
        "messages. Run the other filter first."
    ),
    "compare.filter": "Other filter",
    "compare.mails": "Messages",
    "compare.both": "Both positive",
    "compare.neither": "Neither positive",
    "compare.only-ours": "Only surebayes positive",
    "compare.only-theirs": "Only other positive",
    "compare.known": "Correct label known",
    "compare.alarms": "False alarms (surebayes / other)",
    "compare.misses": "Misses (surebayes / other)",
    "compare.differ": "Disagreements with {field}",
    "compare.agree": "Agreements with {field}",
    "compare.to-differ": "Show disagreements",
    "compare.to-agree": "Show agreements",
    "compare.none": "None.",
    # ---- learning
    "learning.title": "Learning",
    "learning.tab": "Lessons",
    "learning.learnt": "Learnt",
    "learning.learnt-label": "{label}",
    "learning.needed": "Good messages needed for a promise",
    "learning.needed-rate": "False alarms",
    "learning.needed-most": "at most {rate}",
    "learning.needed-count": "Needed",
    "learning.needed-missing": "Still missing",
    "learning.enough": "enough",
    "learning.needed-about": (
        "These numbers are for 95% confidence. Set aside so far: {have}. <code>surebayes calibrate --ham PATH</code> "
        "adds more."
    ),
    "learning.unsure": 'The filter learns fastest from <a href="/mail?q=is%3Aunsure">messages it is unsure about</a>.',
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
    "learning.undone": "Lesson {version} undone. The message is now {outcome}.",
    "learning.no-version": "The form is missing the lesson number. Reload the page.",
    "versions.title": "Versions",
    "versions-confirm.title": "Roll back?",
    "versions.now": "Current version: {now}",
    "versions.from": "From version",
    "versions.to": "to version",
    "versions.show": "Show changes",
    "versions.version": "Version",
    "versions.change": "Change",
    "versions.since": "show changes since",
    "versions.roll-back": "roll back",
    "versions.roll-back-to": "to {version}",
    "versions.actions": "Actions",
    "versions.empty": (
        "<strong>No versions yet</strong>Every training run and calibration creates a version. You can also roll back "
        'to any <a href="/learning">lesson</a>, by its number.'
    ),
    "versions.changes": "Changes",
    "versions.changes-between": "Changes from {first} to {last}",
    "versions.changed": "{messages} changed",
    "versions.learnt": "; {count} learnt as {label}",
    "versions.forgotten": "; {count} forgotten ({label})",
    "versions.settings": "; {settings} changed.",
    "versions.before": "Before",
    "versions.after": "After",
    "versions.latest": "The list shows the latest {count}.",
    "versions.sure": "This returns the filter to version {version}, and undoes all later changes.",
    "versions.sure-about": "The rollback is a new entry in the history, and can be undone in the same way.",
    "versions.do": "Roll back",
    "versions.cancel": "Cancel",
    "versions.done": "Returned to version {version}: {entries} undone.",
    "versions.no-version": "The form is missing the version. Reload the page.",
    "versions.no-address": (
        "The address is missing the version. It should look like /learning/versions/confirm?version=1."
    ),
    # ---- settings
    "settings.title": "Settings",
    "settings.tab": "Server",
    "settings.version": "Version",
    "settings.hosts": "Hosts",
    "settings.hosts-waiting": "Waiting on this host for the database: {lessons}.",
    "settings.host": "Host",
    "settings.host-state": "Lessons",
    "settings.host-row": "Last journal row",
    "settings.host-seconds": "Seconds since last report",
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
    "settings.mode-stopped": "surge: mail is not marked until it ends",
    "settings.change": (
        "To change these, use the options of <code>surebayes serve</code> or the settings file, then restart the "
        "server."
    ),
    "settings.retention": "Remembered verdicts",
    "settings.kept": "Kept for",
    "settings.kept-text": "{days}, up to {most} and {bytes}",
    "settings.remembered": "Currently stored",
    "settings.remembered-text": "{count}, {bytes}",
    "settings.presumed": "Presumed good after",
    "settings.off": "off",
    "settings.tokens": "Tokens",
    "settings.no-tokens": "There is no token file: local programs have full access, and remote programs have none.",
    "settings.tokens-file": "File",
    "settings.role": "Role",
    "settings.person": "Person",
    "settings.tokens-number": "Tokens",
    "settings.everybody": "everyone",
    "settings.tokens-about": (
        "To change access, add or remove lines in this file. Changes take effect with the next request."
    ),
    "people.title": "People",
    "people-confirm.title": "Delete this person's data?",
    "people.quota": "Quota per person: {lessons}, {size}.",
    "people.no-quota": "no limit on lessons",
    "people.no-quota-size": "no limit on size",
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
    "people.more": "Show more people",
    "people.none": (
        "<strong>No people yet</strong>A person's layer is created with their first lesson. Add "
        "<code>?user=NAME</code> to the request that teaches it."
    ),
    "people.off": (
        "<strong>Personal layers are off</strong>Start the server with <code>--users DIR</code> to give each person a "
        "layer on top of the shared filter."
    ),
    "people.sure": "This deletes the layer of {name}, and all remembered verdicts on their mail.",
    "people.sure-about": "This cannot be undone. Lessons in the shared filter are kept.",
    "people.do": "Delete data of {name}",
    "people.cancel": "Cancel",
    "people.done": "Deleted the data of {name} ({layer}, {remembered}).",
    "people.layer": "their layer",
    "people.no-layer": "no layer",
    "people.no-address": (
        "The address is missing the person. It should look like /settings/people/confirm?name=ann@example.org."
    ),
    "people.no-name": "The form is missing the person. Reload the page.",
    "erase.title": "Erase",
    "erase.about": (
        "Erases messages from the model, and overwrites their content in the journal and in the remembered verdicts. "
        "Each journal row keeps its fingerprint, class, time and author."
    ),
    "erase.ids": "Message-IDs, one per line",
    "erase.sure": "I understand that this cannot be undone",
    "erase.do": "Erase",
    "erase.copies": "Messages are not erased from backups or other copies of the folder.",
    "erase.no-id": "No Message-ID was given. Enter one as it appears in the header: <...@...>",
    "erase.not-sure": "Erasing cannot be undone. Tick the box to confirm.",
    "erase.done": (
        "Messages found in the model: {messages} ({forgotten} forgotten, {released} no longer set aside). Journal rows "
        "overwritten: {rows}. Erased: {remembered}."
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
