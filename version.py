"""The version of the package: a module of its own, for code that the package's top imports."""

__version__ = "0.1.0"
