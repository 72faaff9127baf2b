"""Build the kernels where there is a C compiler; without one their references in Python take over."""

import os
import sys
from glob import glob

from setuptools import Extension, setup

KERNELS = "src/surebayes/kernels"
# no contraction: a score is the same to the last bit in Python
flags = [] if sys.platform == "win32" else ["-O3", "-std=c11", "-fvisibility=hidden", "-ffp-contract=off"]
flags += os.environ.get("SUREBAYES_CFLAGS", "").split()


def kernel(name, sources):
    return Extension(
        f"surebayes.kernels.{name}",
        sorted(sources),
        depends=sorted(glob(f"{KERNELS}/*.h") + glob(f"{KERNELS}/{name[1:]}/*.h")),
        define_macros=[("Py_LIMITED_API", "0x030b0000")],
        py_limited_api=True,
        extra_compile_args=flags,
        extra_link_args=os.environ.get("SUREBAYES_LDFLAGS", "").split(),
        libraries=[] if sys.platform == "win32" else ["m"],
        optional=not os.environ.get("SUREBAYES_KERNELS"),  # set: a kernel that doesn't compile is an error
    )


# A kernel is one file, or a folder of files of one idea each.
files = {os.path.basename(path)[:-2]: [path] for path in glob(f"{KERNELS}/_*.c")}
folders = {f"_{name}": glob(f"{KERNELS}/{name}/*.c") for name in ("text", "mail", "pool")}

# Manual pages and completions, where tools/man_pages.py has written them.
share = {os.path.dirname(path): [] for path in glob("share/**/*", recursive=True) if os.path.isfile(path)}
for folder in share:
    share[folder] = sorted(path for path in glob(f"{folder}/*") if os.path.isfile(path))

setup(
    data_files=sorted(share.items()),
    ext_modules=[kernel(name, sources) for name, sources in sorted({**files, **folders}.items())],
)
