"""`surebayes filter` as a process: the mail comes out whole, or the exit code is 75."""

import fcntl
import os
import resource
import shutil
import subprocess
import sys
import threading
import time

import pytest

import surebayes as sb
from command_line import SCRIPT, clean_environment
from surebayes.filter.quick import filter_mail as one_shot
from surebayes.filter.quick.filter_mail import OWN
from surebayes.mail.message import MAX_BYTES
from surebayes.mail.readers import without_fields
from surebayes.persist.manifest import VERSION, read_manifest
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(60, seed=4)]
MAIL = MAILS[-1][0]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("filters") / "f"
    with sb.Filter.create(path, model="words", width=2**12) as mine:
        mine.train(MAILS[:40], reserve=0)
    return path


@pytest.fixture
def model(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "f")


def run(*words, stdin=MAIL, env=None, **options):
    return subprocess.run(
        [*SCRIPT, "filter", *map(str, words)],
        **{"input": stdin, "capture_output": True, **options},
        env=clean_environment(**(env or {})), timeout=60, check=False,
    )  # fmt: skip


def fields(mail):
    head = mail.partition(b"\n\n")[0].decode("latin-1")
    return dict(line.split(": ", 1) for line in head.splitlines() if line.startswith(("X-Surebayes", "X-Spam")))


def is_whole(mail, raw=MAIL):
    return without_fields(mail, (OWN,)) == raw


# ---- output


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("room", [0, 1, 100, 700_000])
def test_a_disk_that_fills_is_no_mail_delivered(room, unbuffered, model, tmp_path):
    """The system writes as much of a buffer as fits, without an error: the next write has the error."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    raw = MAIL + b"more of it\n" * 100_000
    with open(tmp_path / "out", "wb") as out:
        done = run(
            "-m", model, stdin=raw, env={"PYTHONUNBUFFERED": unbuffered}, preexec_fn=limit,
            stdout=out, stderr=subprocess.PIPE, capture_output=False,
        )  # fmt: skip
    assert (tmp_path / "out").stat().st_size == room
    assert done.returncode == 75
    assert b"could not be read or written" in done.stderr


def test_a_full_device(model):
    with open("/dev/full", "wb") as full:
        done = run("-m", model, stdout=full, stderr=full, capture_output=False)
    assert done.returncode == 75


def test_a_reader_that_leaves(model):
    reading, writing = os.pipe()
    os.close(reading)
    raw = MAIL + b"more of it\n" * 100_000
    done = run("-m", model, stdin=raw, stdout=writing, stderr=subprocess.PIPE, capture_output=False)
    os.close(writing)
    assert done.returncode == 75


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_streams(closed, model):
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *SCRIPT, "filter", "-m", str(model)]
    done = subprocess.run(shell, input=MAIL, capture_output=True, env=clean_environment(), timeout=60, check=False)
    assert (done.returncode, done.stdout) == (75, b"")


def test_pipes_that_do_not_block(model):
    """Such a pipe gives nothing, or takes nothing, for a while: neither is the end of the mail."""
    raw = MAIL + b"more of it\n" * 50_000
    inside, outside = os.pipe(), os.pipe()
    for end in (inside[0], outside[1]):
        fcntl.fcntl(end, fcntl.F_SETFL, fcntl.fcntl(end, fcntl.F_GETFL) | os.O_NONBLOCK)
    process = subprocess.Popen(
        [*SCRIPT, "filter", "-m", str(model)], stdin=inside[0], stdout=outside[1], env=clean_environment()
    )
    os.close(inside[0])
    os.close(outside[1])

    def write():
        with open(inside[1], "wb") as pipe:
            pipe.write(raw[:100])
            pipe.flush()
            time.sleep(0.5)
            pipe.write(raw[100:])

    writer = threading.Thread(target=write)
    writer.start()
    with open(outside[0], "rb") as pipe:
        time.sleep(1.0)
        out = pipe.read()
    writer.join()
    assert process.wait(timeout=60) == 0
    assert is_whole(out, raw)


# ---- nobody to tell


@pytest.mark.parametrize("strict", [[], ["--exit-code"]])
@pytest.mark.parametrize("stderr", ["2>/dev/full", "2>&-", "dead pipe"])
def test_nobody_hears_of_an_error_and_the_mail_comes_out(stderr, strict, tmp_path):
    command = [*SCRIPT, "filter", "-m", str(tmp_path / "no such folder"), *strict]
    if stderr == "dead pipe":
        reading, writing = os.pipe()
        os.close(reading)
        options = {"stderr": writing}
    else:
        command, options = ["sh", "-c", f'exec "$@" {stderr}', "sh", *command], {"stderr": subprocess.PIPE}
    done = subprocess.run(
        command, input=MAIL, stdout=subprocess.PIPE, env=clean_environment(), timeout=60, check=False, **options
    )
    assert done.returncode == (75 if strict else 0)
    assert is_whole(done.stdout)
    assert "No model" in fields(done.stdout)["X-Surebayes-Error"]


# ---- settings


@pytest.mark.parametrize(
    "content",
    [
        b"x = " + b"[" * 20_000,
        b"x = " + b"{a=" * 20_000,
        b"top = " + b"1" * 10_000,
        b"\xff\xfe",
        b"no such = 1",
        b"x_spam = 3",
        b"newer_than_this_release = true",
    ],
)
def test_a_broken_file_of_settings_costs_no_verdict(content, model):
    (model / "config.toml").write_bytes(content)
    done = run("-m", model)
    assert done.returncode == 0
    assert is_whole(done.stdout)
    assert "X-Surebayes-Label" in fields(done.stdout)
    assert b"judged without these settings" in done.stderr


@pytest.mark.parametrize("way", ["-m DIR", "-mDIR", "--model DIR", "--model=DIR", "SUREBAYES_MODEL"])
def test_every_way_to_name_the_folder_reads_its_new_settings(way, model):
    (model / "config.toml").write_text("x_spam = true\n")
    os.utime(model / "config.toml", (2**31 - 2, 2**31 - 2))
    env = {"SUREBAYES_MODEL": str(model)} if way.startswith("S") else {}
    words = [] if env else way.replace("DIR", str(model)).split(" ", 1)
    assert "X-Spam-Flag" in fields(run(*words, env=env).stdout)
    assert "X-Spam-Flag" not in fields(run(*words, "--no-x-spam", env=env).stdout)


@pytest.mark.parametrize("way", ["--config FILE", "--config=FILE", "SUREBAYES_CONFIG"])
def test_a_named_file_of_settings(way, model, tmp_path):
    file = tmp_path / "elsewhere.toml"
    file.write_text(f'x_spam = true\nmodel = "{model}"\n')
    env = {"SUREBAYES_CONFIG": str(file)} if way.startswith("S") else {}
    words = [] if env else way.replace("FILE", str(file)).split(" ", 1)
    done = run(*words, env=env)
    assert done.returncode == 0
    assert {"X-Spam-Flag", "X-Surebayes-Label"} <= fields(done.stdout).keys()


def test_the_group_of_commands_runs_it_too(model):
    done = subprocess.run(
        [*SCRIPT, "--debug", "filter", "-m", str(model), "--exit-code", "--x-spam"],
        input=MAILS[-1][0], capture_output=True, env=clean_environment(), timeout=60, check=False,
    )  # fmt: skip
    flagged = fields(done.stdout)["X-Spam-Flag"] == "YES"
    assert done.returncode == int(flagged)


# ---- an installation that is damaged


def run_without(modules, *words, stdin=MAIL):
    """Run the command where modules can't be imported."""
    code = (
        f"import sys\nfor name in {modules!r}: sys.modules[name] = None\n"
        "from surebayes._entry import main\nsys.exit(main())"
    )
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, words)],
        input=stdin, capture_output=True, env={**clean_environment(), "PYTHONWARNINGS": "ignore"}, timeout=60,
        check=False,
    )  # fmt: skip


@pytest.mark.parametrize("strict", [[], ["--exit-code"]])
@pytest.mark.parametrize(
    "missing",
    [
        "filter.model",
        "mail",
        "mail.plain",
        "persist.manifest",
        "_store_errors",
        "kernels.reference",
        "pool.engine",
    ],
)
def test_a_failing_import_costs_the_verdict_alone(missing, strict, model):
    modules = [f"surebayes.{missing}", "surebayes.kernels._pool"]
    done = run_without(modules, "filter", "-m", model, *strict)
    assert done.returncode == (75 if strict else 0)
    assert is_whole(done.stdout)
    assert list(fields(done.stdout)) == ["X-Surebayes-Error"]


@pytest.mark.parametrize(
    "modules", [["surebayes.filter.quick.filter_mail"], ["surebayes.kernels._mail", "surebayes.mail.readers"]]
)
def test_where_nothing_can_be_done_nothing_comes_out(modules, model):
    done = run_without(modules, "filter", "-m", model)
    assert (done.returncode, done.stdout) == (75, b"")


def test_settings_that_cannot_be_read(model):
    (model / "config.toml").write_text("x_spam = true\n")
    done = run_without(["surebayes.filter.settings"], "filter", "-m", model)
    assert done.returncode == 0
    assert is_whole(done.stdout)
    assert "X-Surebayes-Label" in fields(done.stdout)


def test_a_damaged_installation_is_no_spam(model):
    done = run_without(["click"], "classify", "-m", model, "--exit-code", "-")
    assert (done.returncode, done.stdout) == (70, b"")
    assert b"Traceback" not in done.stderr


# ---- a folder that a later release wrote


def test_an_older_program_passes_mail_on_and_says_so(model):
    from surebayes.persist import manifest

    text = (model / "manifest.json").read_bytes()
    assert read_manifest(str(model))["version"] == VERSION
    body = (
        text.replace(b'"version": %d' % VERSION, b'"version": %d' % (VERSION + 1), 1).split(b',\n "crc32"')[0] + b"\n}"
    )
    (model / "manifest.json").write_bytes(manifest.seal(body))
    done = run("-m", model)
    assert done.returncode == 0
    assert is_whole(done.stdout)
    assert "Upgrade surebayes" in fields(done.stdout)["X-Surebayes-Error"]
    assert done.stderr.endswith(b"Upgrade surebayes to use it. The message is passed on without a verdict.\n")
    assert run("-m", model, "--exit-code").returncode == 75


# ---- headers


def test_what_is_held_is_more_than_what_is_read():
    assert one_shot.HELD > MAX_BYTES


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("shift", [0, 1, 2, 3])
def test_fields_after_16_megabytes_of_header(end, shift, model):
    line = b"X-Long: " + b"a" * 100 + end
    many = line * (MAX_BYTES // len(line) + 5)
    forged = b"X-Surebayes-Label: ham" + end + b"  continued" + end
    start = b"Y" * shift + b"Y: z" + end
    around = MAX_BYTES // len(line) * len(line)
    raw = start + many[:around] + forged + many[around:] + forged * 2
    tail = b"Subject: a" + end + forged + end + forged + b"body"
    done = run("-m", model, stdin=raw + tail)
    assert done.returncode == 0
    expected = start + many + b"Subject: a" + end + end + forged + b"body"
    head, _, rest = done.stdout.partition(start)
    assert start + rest == expected
    assert head.count(b"X-Surebayes-Label: ") == 1


def test_a_field_of_32_megabytes_is_no_mail(model):
    done = run("-m", model, stdin=b"X: " + b"\n a" * (12 * 1024 * 1024) + b"\n\nbody")
    assert (done.returncode, done.stdout) == (75, b"")
    assert b"longer than" in done.stderr


def test_a_long_mail_without_a_header_end(model):
    raw = b"X: 1\n" * (MAX_BYTES // 5 + 3)
    done = run("-m", model, stdin=raw)
    assert done.returncode == 0
    assert is_whole(done.stdout, raw)


@pytest.mark.parametrize("blank", [b" ", b"\t"])
@pytest.mark.parametrize("envelope", [b"", b"From a@b Mon Jan  1 00:00:00 2024\n"])
def test_a_first_line_that_starts_with_a_blank_continues_no_verdict(blank, envelope, model):
    import email

    raw = envelope + blank + b"X-Surebayes-Label: ham\nSubject: a\n\nbody\n"
    done = run("-m", model, stdin=raw)
    assert done.stdout.endswith(raw[len(envelope) :])
    read = email.message_from_bytes(done.stdout)
    assert read.get_all("X-Surebayes-Label") in (["ham"], ["spam"])
    for name in ("Label", "Score", "Threshold", "Probability", "Model"):
        assert "\n" not in read[f"X-Surebayes-{name}"]
    assert read["Subject"] == "a"


def test_line_ends_of_the_mail_are_those_of_the_fields(model):
    raw = b"Subject: one\rMessage-ID: <1@example.org>\r\rline one\rline two\r"
    done = run("-m", model, stdin=raw)
    assert b"\n" not in done.stdout
    assert done.stdout.endswith(raw)
    assert done.stdout.split(b"\r")[0].startswith(b"X-Surebayes-Label: ")
    mixed = b"Subject: a\rb\nTo: c\n\nbody\n"
    assert run("-m", model, stdin=mixed).stdout.split(b"\n")[0].startswith(b"X-Surebayes-Label: ")


def test_a_mapped_file_that_is_cut_short_ends_with_75(tmp_path):
    """Not by a signal: whoever delivers the mail tries again."""
    pytest.importorskip("surebayes.kernels._pool")
    path = tmp_path / "tables"
    path.write_bytes(b"x" * 20_000)
    code = (
        "import mmap, os, sys\nfrom surebayes.kernels import kernel\nkernel('pool').end_on_bus_error()\n"
        "file = open(sys.argv[1], 'r+b')\nmapped = mmap.mmap(file.fileno(), 0)\n"
        "os.truncate(sys.argv[1], 0)\nmapped[9000]\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert done.returncode == 75
    assert "truncated" in done.stderr
