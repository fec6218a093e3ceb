# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packaging needs this file only to know that the wheel is for one platform: CMake builds what makes it so."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build import build
from setuptools.dist import Distribution

ROOT = Path(__file__).parent
EXTENSIONS = ("python/tilewright/_codegen*.so", "tilewright_runtime/_native*.so")
"""Extension modules of the compiler's package, and of the one that only calls kernels: `make wheel` makes a project of each."""


class BinaryDistribution(Distribution):
    """A distribution whose package holds extension modules that setuptools did not build."""

    def has_ext_modules(self) -> bool:
        """Always."""
        return True


class Built(build):
    """What makes a wheel, of sources whose extension modules are there; an editable install comes before them."""

    def run(self) -> None:
        """Collects what the wheel has.

        Raises:
            SystemExit: The extension modules are not there: the wheel could not be imported.
        """
        if not any(any(ROOT.glob(each)) for each in EXTENSIONS):
            raise SystemExit(
                "tilewright's C++ is not built here, and pip does not build it: run `make wheel`, or `make setup` first"
            )
        super().run()


setup(distclass=BinaryDistribution, cmdclass={"build": Built})
