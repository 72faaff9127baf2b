"""Build the text kernel where there is a C compiler; without one the pure-Python twin takes over."""

import os
import sys

from setuptools import Extension, setup

kernel = "src/surebayes/_text.c"
flags = [] if sys.platform == "win32" else ["-O3", "-std=c11", "-fvisibility=hidden"]
flags += os.environ.get("SUREBAYES_CFLAGS", "").split()

setup(
    ext_modules=[
        Extension(
            "surebayes._text",
            [kernel],
            define_macros=[("Py_LIMITED_API", "0x030b0000")],
            py_limited_api=True,
            extra_compile_args=flags,
            extra_link_args=os.environ.get("SUREBAYES_LDFLAGS", "").split(),
            optional=True,
        )
    ]
    if os.path.exists(kernel)
    else []
)
