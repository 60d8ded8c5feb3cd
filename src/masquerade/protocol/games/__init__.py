"""Mashups as games: what a party gets when it, or another, does not play by the rules.

`play` runs one mashup in memory through the parties' real scripts, with a strategy for each of them; `strategies` are
the ways to play; `repeated` plays several games, with punishment. The results are in docs/games.md.
"""

from masquerade.protocol.games.play import Game, Turn, play
from masquerade.protocol.games.repeated import (
    Repeated,
    break_even,
    deviation_average,
    discounted_average,
    play_on,
    theorem_holds,
)
from masquerade.protocol.games.strategies import (
    Strategy,
    coalition,
    gives_only_below,
    honest,
    never,
    obliging,
    overstates,
    quits,
    under_declares,
    weighted,
)

__all__ = [
    "Game",
    "Repeated",
    "Strategy",
    "Turn",
    "break_even",
    "coalition",
    "deviation_average",
    "discounted_average",
    "gives_only_below",
    "honest",
    "never",
    "obliging",
    "overstates",
    "play",
    "play_on",
    "quits",
    "theorem_holds",
    "under_declares",
    "weighted",
]
