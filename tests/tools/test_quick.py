"""The tests that `make quick` chooses for a change, and the end of its time."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import quick  # noqa: E402

STUB = "from surebayes.core.score import Explanation as Explanation\nfrom surebayes import metrics as metrics\n"


@pytest.fixture
def tree(tmp_path):
    """A small tree of tests; what each imports is all that counts."""
    files = {
        "src/surebayes/__init__.pyi": STUB,
        "tests/pool/test_engine.py": "import numpy\n",
        "tests/pool/test_engine_threads.py": "",
        "tests/pool/test_engines.py": "",
        "tests/other/test_direct.py": "def f():\n    from surebayes.pool.engine import Engine\n",
        "tests/other/test_package.py": "from surebayes.pool import engine\n",
        "tests/other/test_public.py": "import surebayes as sb\nsb.Explanation\n",
        "tests/other/test_public_too.py": "from surebayes import Explanation\n",
        "tests/other/test_else.py": "import surebayes.pool.engineering\nsb.Explanations\n",
        "tests/other/test_helped.py": "import strategies\n",
        "tests/kernels/test_pool_kernel.py": "from surebayes.kernels import _pool\n",
        "tests/kernels/test_pool.py": "",
        "tests/cli/test_cli_users.py": "",
        "tests/cli/test_cli.py": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        ("README.md", []),
        (
            "src/surebayes/pool/engine.py",
            [
                "src/surebayes/pool/engine.py",
                "tests/pool/test_engine.py",
                "tests/pool/test_engine_threads.py",
                "tests/other/test_direct.py",
                "tests/other/test_package.py",
            ],
        ),
        (
            "src/surebayes/core/score.py",
            ["src/surebayes/core/score.py", "tests/other/test_public.py", "tests/other/test_public_too.py"],
        ),
        (
            "src/surebayes/kernels/pool/score.c",
            ["tests/kernels/test_pool.py", "tests/kernels/test_pool_kernel.py"],
        ),
        ("src/surebayes/cli/users.py", ["src/surebayes/cli/users.py", "tests/cli/test_cli_users.py"]),
        ("tests/strategies.py", ["tests/other/test_helped.py"]),
        ("tests/other/test_else.py", ["tests/other/test_else.py"]),
    ],
)
def test_the_tests_of_a_change(tree, changed, chosen):
    assert quick.related_tests([changed], tree) == chosen


@pytest.mark.parametrize("kernel", ["mail", "pool", "text"])
def test_every_kernel_has_tests(kernel):
    assert quick.related_tests([f"src/surebayes/kernels/{kernel}/module.c"], ROOT)


LATE = "import quick, types\n\ndef late():\n    quick.time = types.SimpleNamespace(monotonic=lambda: 1e12)\n\n"
ENDS = [
    ("def test_a():\n    pass\n\ndef test_b():\n    late()\n", "0 False"),
    ("def test_a():\n    late()\n\ndef test_b():\n    pass\n\ndef test_c():\n    pass\n", "2 True 2 tests"),
    ("def test_a():\n    assert False\n\ndef test_b():\n    pass\n", "1 False 1 tests"),
    ("late()\n\ndef test_a():\n    pass\n\ndef test_b():\n    pass\n", "2 True 1 tests"),
    ("raise ValueError\n", "2 False"),
]
RUN = f"""
import sys, time
sys.path.insert(0, {str(ROOT / "tools")!r})
import pytest, quick
for name in sys.argv[1:]:
    quick.time = time
    deadline = quick.Deadline(time.monotonic(), 1000.0)
    code = pytest.main(["-q", "-x", "-p", "no:cacheprovider", name], plugins=[deadline])
    print("ended", int(code), deadline.stopped, deadline.left_out())
"""


def test_what_the_time_does_not_allow_is_counted(tmp_path):
    names = [f"test_{i}.py" for i in range(len(ENDS))]
    for name, (tests, _) in zip(names, ENDS):
        (tmp_path / name).write_text(LATE + tests, encoding="utf-8")
    command = [sys.executable, "-c", RUN, *names]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    ended = [line.removeprefix("ended ").rstrip() for line in finished.stdout.splitlines() if line.startswith("ended")]
    assert ended == [end for _, end in ENDS]


def test_an_unknown_base_is_an_error():
    with pytest.raises(SystemExit, match="--base"):
        quick.changed("no-such-commit")
