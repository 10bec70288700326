"""What parts of a network are called in a state dict, whatever types and actions are called; no torch."""

from __future__ import annotations


def escaped(name: str) -> str:
    """`name` without dots, which torch refuses in the names of modules.

    `names.module_key` puts a % behind those that torch refuses for other reasons; no other escaped name looks
    like that.
    """
    return name.replace("%", "%25").replace(".", "%2E")
