"""What a person at the command line did that can't be done."""

from __future__ import annotations


class UserError(Exception):
    """One clear sentence for the person at the keyboard; the command line prints it and exits with code 2."""
