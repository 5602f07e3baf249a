# SPDX-License-Identifier: Apache-2.0
"""Builds the part in C against the libferry that pkg-config finds.

FERRY_RPATH names the folder in which the extension looks for the library, and may be empty. Without
it, that is the folder that pkg-config says, unless the loader looks there anyway.
"""

import os
import pathlib
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = pathlib.Path(__file__).resolve().parent
OLDEST = "0.1.0"


def pkg_config(*arguments):
    """What pkg-config answers, or None if it does not know ferry."""
    program = shutil.which(os.environ.get("PKG_CONFIG", "pkg-config"))
    if program is None:
        sys.exit("ferry: pkg-config is needed to find libferry (Debian: apt install pkg-config)")
    done = subprocess.run([program, *arguments, "ferry"], capture_output=True, text=True)
    return done.stdout.split() if done.returncode == 0 else None


def require_library():
    if pkg_config(f"--atleast-version={OLDEST}") is not None:
        return
    found = pkg_config("--modversion")
    what = f"libferry {found[0]} is too old" if found else "libferry is not found by pkg-config"
    sys.exit(
        f"ferry: {what}: the package needs libferry {OLDEST} or later, with its headers.\n"
        "Install it (cmake --install build/release --prefix PREFIX, or libferry-dev), and if\n"
        "it is in a PREFIX of your own: export PKG_CONFIG_PATH=PREFIX/lib/pkgconfig (on Debian\n"
        "the folder may be PREFIX/lib/x86_64-linux-gnu/pkgconfig)."
    )


def library_version():
    """The library's version is the package's; a source tree says it too, for `sdist`."""
    found = pkg_config("--modversion")
    return found[0] if found else OLDEST


def loader_folders():
    """Folders in which the loader looks by itself."""
    done = subprocess.run(["/sbin/ldconfig", "-v", "-N"], capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("/")]
    return {os.path.realpath(line.split(":")[0]) for line in lines} | {"/lib", "/usr/lib"}


def run_paths(folders):
    if "FERRY_RPATH" in os.environ:
        return [os.environ["FERRY_RPATH"]] if os.environ["FERRY_RPATH"] else []
    known = loader_folders()
    return [folder for folder in folders if os.path.realpath(folder) not in known]


class BuildExtension(build_ext):
    """Asks for the library when it is needed, so that `sdist` works without it."""

    def build_extensions(self):
        require_library()
        flags = pkg_config("--cflags")
        folders = [flag[2:] for flag in pkg_config("--libs-only-L")]
        for extension in self.extensions:
            extension.extra_compile_args += flags
            extension.library_dirs += folders
            extension.runtime_library_dirs += run_paths(folders or pkg_config("--variable=libdir"))
        super().build_extensions()


setup(
    version=library_version(),
    packages=["ferry"],
    package_data={"ferry": ["py.typed", "*.pyi"]},
    ext_modules=[
        Extension(
            "ferry._core",
            sources=sorted(f"source/{path.name}" for path in (HERE / "source").glob("*.c")),
            depends=sorted(f"source/{path.name}" for path in (HERE / "source").glob("*.h")),
            libraries=["ferry"],
            extra_compile_args=["-std=c11", "-Wall", "-Wextra", "-fvisibility=hidden"],
            py_limited_api=True,
        )
    ],
    cmdclass={"build_ext": BuildExtension},
    options={"bdist_wheel": {"py_limited_api": "cp39"}},
    zip_safe=False,
)
