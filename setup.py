# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packaging needs this file only to know that the wheel is for one platform: CMake builds what makes it so."""

from setuptools import setup
from setuptools.dist import Distribution


class BinaryDistribution(Distribution):
    """A distribution whose package holds extension modules that setuptools did not build."""

    def has_ext_modules(self) -> bool:
        """Always."""
        return True


setup(distclass=BinaryDistribution)
