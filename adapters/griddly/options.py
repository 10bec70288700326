"""Options of levels, observations and actions, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...envs.errors import check_flags, whole_number, whole_options
from ...suggestions import did_you_mean
from .rules import Rules


@dataclass(frozen=True)
class GriddlyOptions:
    """Options of `GriddlyVectorEnv`.

    Raises:
        TypeError, ValueError: an option that is out of its range, by name.
    """

    #: The number of a level of the game, or a level's text. Of a list of such, or of all levels (None), one
    #: is drawn for each episode.
    level: int | str | Sequence[int | str] | None = 0
    max_steps: int | None = (
        1000  # steps after which an episode is truncated; None: the game's own limits only
    )
    exclude: Sequence[str] = ()  # entity types that are not observed, e.g. ("wall",)
    masks: bool = True  # mask the actions that would change nothing
    partial_observability: bool = True  # observe the window of the game around the avatar, where it has one

    def __post_init__(self) -> None:
        check_flags(self, "masks", "partial_observability")
        whole_options(self, max_steps=(1, None))
        if isinstance(self.exclude, str) or not isinstance(self.exclude, Sequence):
            raise TypeError(f"exclude: expected a list of entity types, got {self.exclude!r}")
        object.__setattr__(self, "exclude", tuple(self.exclude))

    def check(self, rules: Rules) -> None:
        """Check what depends on the game.

        Raises:
            TypeError, ValueError: no such level, or no such entity type.
        """
        self.levels(rules)
        for name in self.exclude:
            if name not in rules.objects:
                hint = did_you_mean(name, rules.objects)
                raise ValueError(
                    f"exclude: expected entity types of {rules.name} ({', '.join(rules.objects)}),"
                    f" got {name!r}{hint}"
                )
            if name == rules.avatar:
                raise ValueError(f"exclude: expected other types than the avatar's, got {name!r}")

    def levels(self, rules: Rules) -> tuple[int | str, ...]:
        """Return the levels of which one is drawn for each episode."""
        if self.level is None:
            found: Sequence[int | str] = range(rules.num_levels)
        elif isinstance(self.level, Sequence) and not isinstance(self.level, str):
            found = self.level
        else:
            found = [self.level]
        if not found:
            raise ValueError(f"level: expected at least one level, got none of {rules.name}")
        found = [level if isinstance(level, str) else whole_number("level", level, 0) for level in found]
        for level in found:
            if not isinstance(level, str) and level >= rules.num_levels:
                raise ValueError(
                    f"level: expected a number below {rules.num_levels}, as {rules.name} has so many levels,"
                    f" or the text of a level, got {level}"
                )
        return tuple(found)
