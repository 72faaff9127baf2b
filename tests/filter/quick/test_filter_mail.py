"""`surebayes filter`: small, fast, the same scores as the Filter's, and never a message lost."""

import compileall
import io
import os
import pathlib
import shutil
import subprocess
import sys
import types

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import surebayes as sb
from surebayes import _entry
from surebayes.filter.model import Model
from surebayes.filter.quick import filter_mail as one_shot
from surebayes.filter.quick.filter_mail import OWN, with_fields
from surebayes.kernels import kernel
from surebayes.mail.plain import MAX_BYTES, read_messages
from surebayes.mail.readers import FILTER_FIELDS, header_end, without_fields
from surebayes.pool.document import Document
from surebayes.synthetic import mail_stream

ROOT = pathlib.Path(__file__).parents[3]
MAILS = [(mail.raw, mail.label) for mail in mail_stream(120, seed=3)]
ALLOWED = {
    "surebayes", "surebayes._entry", "surebayes._store_errors",
    "surebayes.filter", "surebayes.filter.quick", "surebayes.filter.verdict",
    "surebayes.filter.manifest", "surebayes.filter.model", "surebayes.filter.options",
    "surebayes.filter.quick.filter_mail", "surebayes.filter.store", "surebayes.filter.store.tables",
    "surebayes.kernels", "surebayes.kernels._pool", "surebayes.kernels._mail", "surebayes.kernels._text",
    "surebayes.mail", "surebayes.mail.plain",
    "surebayes.persist", "surebayes.persist.manifest",
    "surebayes.pool", "surebayes.pool.document", "surebayes.pool.engine", "surebayes.pool.novelty",
    "surebayes.pool.second_stage", "surebayes.pool.specs", "surebayes.pool.table", "surebayes.pool.weights",
    "surebayes.record",
    "_json", "gc", "math", "mmap",
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("filters") / "f"
    with sb.Filter.create(path) as mine:
        mine.train(MAILS[:80], reserve=0.1)
    return path


def run(argv, data, monkeypatch):
    """Call the command in this process: exit code, output, what it said."""
    out, stderr = io.BytesIO(), io.StringIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(data)))
        patch.setattr(sys, "stdout", types.SimpleNamespace(buffer=out, write=lambda text: out.write(text.encode())))
        patch.setattr(sys, "stderr", stderr)
        patch.delenv("SUREBAYES_MODEL", raising=False)
        code = _entry.main(["filter", *argv])
    return code, out.getvalue(), stderr.getvalue()


def fields(mail):
    head = mail[: header_end(mail)].replace(b"\r\n", b"\n").decode("latin-1")
    pairs = [line.partition(": ") for line in head.splitlines() if line.startswith(("X-Surebayes", "X-Spam"))]
    return {name: value for name, _, value in pairs}


# ---- what comes out


def test_the_verdict_is_in_the_header(model, monkeypatch):
    with sb.Filter.open(model) as mine:
        for raw, _ in MAILS[80:]:
            code, out, stderr = run(["-m", str(model)], raw, monkeypatch)
            assert (code, stderr) == (0, "")
            verdict, header = mine.judge(raw), fields(out)
            assert float(header["X-Surebayes-Score"]) == verdict.score
            assert header["X-Surebayes-Label"] == verdict.label
            assert header["X-Surebayes-Model"] == verdict.model
            assert float(header["X-Surebayes-Threshold"]) == verdict.threshold
            assert float(header["X-Surebayes-Probability"]) == pytest.approx(verdict.probability, abs=1e-6)
            assert without_fields(out, (OWN,)) == raw


def test_forged_fields_go_and_the_body_stays(model, monkeypatch):
    raw = (
        b"From someone@example.org Mon Jan  1 00:00:00 2024\r\nX-Surebayes-Label: ham\r\n\tfolded\r\nSubject: x\r\n"
        b"x-spam-flag: NO\r\nX-SUREBAYES-SCORE: -99\r\n\r\nX-Surebayes-Label: in the body\r\n\x00\xff\r\r\n"
    )
    _, out, _ = run(["-m", str(model)], raw, monkeypatch)
    assert out.startswith(b"From someone@example.org Mon Jan  1 00:00:00 2024\r\nX-Surebayes-Label: ")
    assert out.count(b"X-Surebayes-Label") == 2
    assert b"folded" not in out
    assert b"-99" not in out
    assert b"x-spam-flag: NO" in out
    assert out.endswith(b"\r\n\r\nX-Surebayes-Label: in the body\r\n\x00\xff\r\r\n")
    _, out, _ = run(["-m", str(model), "--x-spam"], raw, monkeypatch)
    assert b"x-spam-flag: NO" not in out
    header = fields(out)
    assert header["X-Spam-Flag"] == ("YES" if header["X-Surebayes-Label"] == "spam" else "NO")
    assert header["X-Spam-Status"].startswith(("Yes, score=", "No, score="))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.binary(max_size=300),
        st.text("X-Surebay:\r\n \taS", max_size=200).map(str.encode),
        st.text("\r\n a:", max_size=6).map(str.encode),
    )
)
def test_any_bytes_come_out_with_fields_on_top(raw):
    added = [(b"X-Surebayes-Label", b"spam"), (b"X-Surebayes-Score", b"1.5")]
    out = with_fields(raw, added, (OWN,))
    assert out[header_end(out) :] == raw[header_end(raw) :]
    end = b"\r\n" if b"\nX-Surebayes-Score: 1.5\r\n" in out else b"\n"
    end = b"\r" if b"\n" not in out else end
    block = b"X-Surebayes-Label: spam" + end + b"X-Surebayes-Score: 1.5" + end
    note = b"X-Surebayes-Note: the header began with a continuation line" + end
    rest = out.replace(block, b"", 1)
    assert rest.replace(note, b"", 1) == without_fields(raw, (OWN,))
    assert (note in out) == (block + note in out) == rest.replace(note, b"", 1).startswith((b" ", b"\t"))
    assert b"\nx-surebayes" not in without_fields(raw, FILTER_FIELDS)[: header_end(raw)].lower()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\n",
        b"\r\n",
        b"no header at all",
        b"\x00\xff" * 500,
        b"Subject: x",
        b"From ",
        b"Subject: x\n\n",
        b"\n\n\n",
    ],
)
def test_strange_mails_come_out(raw, model, monkeypatch):
    code, out, stderr = run(["-m", str(model)], raw, monkeypatch)
    assert (code, stderr) == (0, "")
    assert without_fields(out, (OWN,)) == raw
    assert "X-Surebayes-Score" in fields(out)


def test_a_huge_mail_is_passed_through(model, monkeypatch):
    raw = b"Subject: big\n\n" + b"some words here\n" * 2_200_000
    assert len(raw) > 2 * MAX_BYTES
    code, out, stderr = run(["-m", str(model)], raw, monkeypatch)
    assert (code, stderr) == (0, "")
    assert out.endswith(raw)


# ---- when something is wrong


@pytest.mark.parametrize("strict", [[], ["--exit-code"]])
@pytest.mark.parametrize("wrong", ["no model", "manifest", "tables", "cut", "flag", "nothing named", "program"])
def test_a_mail_is_never_lost(wrong, strict, model, tmp_path, monkeypatch):
    path = tmp_path / "f"
    shutil.copytree(model, path)
    tables = [n for n in os.listdir(path) if n.startswith("tables")]
    argv = ["-m", str(path), *strict]
    if wrong == "no model":
        shutil.rmtree(path)
    elif wrong == "manifest":
        content = bytearray((path / "manifest.json").read_bytes())
        content[100] ^= 1
        (path / "manifest.json").write_bytes(content)
    elif wrong == "tables":
        for n in tables:
            (path / n).write_bytes(bytes(255 - b for b in (path / n).read_bytes()))
    elif wrong == "cut":
        for n in tables:
            os.truncate(path / n, 1000)
    elif wrong == "flag":
        argv.append("--no-such-flag")
    elif wrong == "nothing named":
        argv = strict
    else:
        monkeypatch.setattr("surebayes.pool.engine.rows_of", lambda *a: 1 / 0)
    raw = MAILS[0][0]
    code, out, stderr = run(argv, raw, monkeypatch)
    assert code == (75 if strict else 0)
    assert without_fields(out, (OWN,)) == raw
    assert list(fields(out)) == ["X-Surebayes-Error"]
    assert stderr.startswith("surebayes filter: ")
    assert "passed on without a verdict" in stderr


def test_exit_codes_and_environment(model, monkeypatch):
    codes = {run(["-m", str(model), "--exit-code"], raw, monkeypatch)[0] for raw, _ in MAILS}
    assert codes == {0, 1}
    assert one_shot.main(["--help"]) is None  # left to the commands, which show it
    monkeypatch.setattr(os, "environ", {**os.environ, "SUREBAYES_MODEL": str(model), "SUREBAYES_X_SPAM": "1"})
    arguments = one_shot.Arguments([])
    assert (arguments.model, arguments.x_spam) == (str(model), True)
    assert one_shot.Arguments([f"-m{model}"]).model == one_shot.Arguments([f"--model={model}"]).model == str(model)


def test_a_closed_output_is_not_a_mail_delivered(model):
    command = [sys.executable, "-c", "import sys; from surebayes._entry import main; sys.exit(main())"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*command, "filter", "-m", str(model)], input=MAILS[0][0], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 75
    assert b"could not be read or written" in done.stderr


# ---- the same scores


def test_the_python_kernels_give_the_same_score(model):
    script = (
        "import sys, warnings; warnings.simplefilter('ignore')\n"
        "for name in ('_text', '_mail', '_pool'): sys.modules['surebayes.kernels.' + name] = None\n"
        "from surebayes.filter.model import Model\n"
        "print(repr(Model.open(sys.argv[1]).scores(sys.stdin.buffer.read())[0]))\n"
    )
    lean = Model.open(str(model))
    for raw, _ in MAILS[:3]:
        done = subprocess.run([sys.executable, "-c", script, str(model)], input=raw, stdout=subprocess.PIPE, check=True)
        assert float(done.stdout) == lean.scores(raw)[0]


def same_on_corpus(path, mails):
    """The same bits by a filter in memory and mapped, by what filter and classify run, and by a pool of its weights."""
    lessons = list({Document(raw, "mail").fingerprint: (raw, label) for raw, label in mails[::3]}.values())
    with sb.Filter.create(path) as mine:
        mine.train(lessons, reserve=0)
        live = [mine.judge(raw).score for raw, _ in mails]
        weights = mine._session.loaded_state().engine.weights
    with sb.Filter.open(path) as again:
        assert [again.judge(raw).score for raw, _ in mails[:500]] == live[:500]
        assert again._session.is_mapped
    lean = Model.open(str(path))
    assert [lean.scores(raw)[0] for raw, _ in mails] == live
    assert [decision[1] for decision in Model.open(str(path), hold=True).judge([raw for raw, _ in mails])] == live
    for (raw, _), score in list(zip(mails, live))[::50]:
        assert float(dict(one_shot.verdict_fields(str(path), raw, False)[0])[b"X-Surebayes-Score"]) == score
    pool = sb.ViewPool().fit([raw for raw, _ in lessons], [label for _, label in lessons])
    pool._engine.weights = weights
    assert pool.decision_function([raw for raw, _ in mails]).tolist() == live


def spamassassin(folder, limit=None):
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = parquet.read_table(folder / "spamassassin.parquet", columns=["raw", "label"]).to_pydict()
    return list(zip(rows["raw"], rows["label"]))[:limit]


@pytest.mark.corpus
def test_the_same_scores_on_real_mail(corpora_folder, tmp_path):
    same_on_corpus(tmp_path / "f", spamassassin(corpora_folder)[::20])


@pytest.mark.corpus
@pytest.mark.slow
def test_the_same_scores_on_all_of_spamassassin(corpora_folder, tmp_path):
    same_on_corpus(tmp_path / "f", spamassassin(corpora_folder))


# ---- what it imports, as installed


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The package as a wheel installs it: with its kernels, and compiled."""
    if not hasattr(kernel(), "__file__") or not kernel().__file__.endswith((".so", ".pyd")):
        pytest.skip("the compiled kernel is not built")
    site = tmp_path_factory.mktemp("site")
    package = shutil.copytree(ROOT / "src" / "surebayes", site / "surebayes", ignore=shutil.ignore_patterns("*.[ch]"))
    assert compileall.compile_dir(package, quiet=2, force=True)
    return site


def start(installed, code, *argv, data=b""):
    """Run Python on the installed package."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV_", "COVERAGE"))}
    environment["PYTHONPATH"] = str(installed)
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, argv)], input=data, capture_output=True, env=environment, check=True
    )


def test_only_small_modules_are_imported(installed, model):
    code = (
        "import sys\nbefore = set(sys.modules)\nfrom surebayes._entry import main\nmain(sys.argv[1:])\n"
        "sys.stderr.write(' '.join(set(sys.modules) - before))\n"
    )
    mails = [raw for raw, _ in MAILS]
    plain = [raw for raw, fields in zip(mails, read_messages(mails, 1000, 1000, False, False)) if fields is not None]
    for raw in plain[:5]:
        done = start(installed, code, "filter", "-m", model, data=raw)
        imported = {name for name in done.stderr.decode().split() if not name.startswith("encodings.")}
        assert imported <= ALLOWED
        assert {"surebayes.kernels._mail", "surebayes.kernels._text", "surebayes.kernels._pool"} <= imported
        assert b"X-Surebayes-Score" in done.stdout


def test_other_commands_go_to_the_command_line(monkeypatch):
    commands = types.ModuleType("surebayes.cli")
    commands.main = lambda argv: (argv, 7)
    monkeypatch.setitem(sys.modules, "surebayes.cli", commands)
    assert _entry.main(["train", "-m", "x"]) == (["train", "-m", "x"], 7)


def test_a_changed_configuration_is_noticed(model, tmp_path, monkeypatch):
    monkeypatch.delenv("SUREBAYES_CONFIG", raising=False)
    path = tmp_path / "f"
    shutil.copytree(model, path)
    (path / "config.toml").write_text("")
    os.utime(path / "config.toml", (1, 1))
    assert not one_shot.Arguments(["-m", str(path)]).has_new_settings
    os.utime(path / "config.toml")
    assert one_shot.Arguments(["-m", str(path)]).has_new_settings
