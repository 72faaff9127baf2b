"""Build the kernels where there is a C compiler; without one their pure-Python twins take over."""

import os
import sys

from setuptools import Extension, setup

flags = [] if sys.platform == "win32" else ["-O3", "-std=c11", "-fvisibility=hidden"]
flags += os.environ.get("SUREBAYES_CFLAGS", "").split()
libraries = {name: [] if sys.platform == "win32" else ["m"] for name in ("_lookup", "_pool")}


def kernel(name):
    return Extension(
        f"surebayes.kernels.{name}",
        [f"src/surebayes/kernels/{name}.c"],
        depends=["src/surebayes/kernels/_select.h"],
        define_macros=[("Py_LIMITED_API", "0x030b0000")],
        py_limited_api=True,
        extra_compile_args=flags,
        extra_link_args=os.environ.get("SUREBAYES_LDFLAGS", "").split(),
        libraries=libraries.get(name, []),
        optional=True,
    )


setup(
    ext_modules=[
        kernel(name) for name in ("_text", "_lookup", "_pool") if os.path.exists(f"src/surebayes/kernels/{name}.c")
    ]
)
