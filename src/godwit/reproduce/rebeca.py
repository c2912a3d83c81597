"""The experiments of `rebeca`, claim by claim."""

from collections.abc import Iterator

from godwit.reproduce import logical, relocation
from godwit.reproduce.claims import Claim, Setting

__all__ = ["claims"]


def claims(setting: Setting) -> Iterator[Claim]:
    """Every claim of the paper, in the order of their keys."""
    yield logical.ploc_tables()
    yield relocation.relocating(setting)
    yield relocation.naive(setting)
    yield logical.as_if_flooded(setting)
    yield logical.cost(setting)
    yield logical.walking_and_roaming(setting)
