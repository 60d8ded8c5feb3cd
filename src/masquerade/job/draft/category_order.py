"""The order that categories have of their own: that of their numbers, of a scale such as low, medium, high, or none."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"\d+(?:[.,]\d+)?")
_BELOW = re.compile(r"(?:<|≤|under |below |less than |up to |unter |bis |moins de )", re.IGNORECASE)
_ABOVE = re.compile(r"(?:>|≥|over |above |more than |über |ab |plus de )", re.IGNORECASE)
_SCALES = tuple(
    {word.casefold(): place for place, words in enumerate(scale.split(", ")) for word in words.split("/")}
    for scale in (
        "none/no/keine, very low/minimal/sehr niedrig, low/mild/slight/light/niedrig/gering/leicht/faible,"
        " medium/moderate/middle/normal/average/mittel/mäßig/moyen,"
        " high/severe/strong/heavy/hoch/schwer/stark/élevé, very high/critical/extreme/sehr hoch",
        "very poor, poor/bad, fair, good/gut, very good, excellent",
        "never/nie, rarely/seldom/selten, sometimes/manchmal, often/oft, always/immer",
        "strongly disagree, disagree, neutral/undecided, agree, strongly agree",
        "xxs, xs, s, m, l, xl, xxl, xxxl",
        "tiny, small/klein, medium/mittel, large/big/groß, huge",
        "i, ii, iii, iv, v, vi, vii, viii, ix, x",
        "january/jan/januar, february/feb/februar, march/mar/märz, april/apr, may/mai, june/jun/juni, july/jul/juli,"
        " august/aug, september/sep/sept, october/oct/oktober/okt, november/nov, december/dec/dezember/dez",
        "monday/mon/montag/mo, tuesday/tue/dienstag/di, wednesday/wed/mittwoch/mi, thursday/thu/donnerstag/do,"
        " friday/fri/freitag/fr, saturday/sat/samstag/sa, sunday/sun/sonntag/so",
    )
)


def natural_order(cells: Sequence[str]) -> list[int] | None:
    """Return the positions of the cells in the order of their numbers or of a scale; None if they have neither."""
    for scale in _SCALES:
        places = [scale.get(" ".join(cell.casefold().split()), -1) for cell in cells]
        if cells and min(places) >= 0 and len({*places}) == len(places):
            return sorted(range(len(cells)), key=places.__getitem__)
    bands = [_band(cell) for cell in cells]
    found = [each for each in bands if each is not None]
    # Only numbers and what stands around them in all cells: bands of ages, stages, quarters.
    if not found or len(found) < len(cells) or len({words for _, words in found}) > 1:
        return None
    return sorted(range(len(cells)), key=lambda at: (found[at][0], cells[at]))


def _band(cell: str) -> tuple[tuple[float, ...], str] | None:
    """Return the place of a cell such as `10-19`, `<10`, `90+` or `stage 2`, and the words beside the numbers."""
    numbers = [float(number.replace(",", ".")) for number in _NUMBER.findall(cell)]
    if not numbers:
        return None
    side = -1.0 if _BELOW.match(cell) else 1.0 if _ABOVE.match(cell) or cell.endswith("+") else 0.0
    words = _ABOVE.sub("", _BELOW.sub("", cell))
    plain = re.sub(r"(?<=\d)(?:st|nd|rd|th)\b", "", words)
    return (numbers[0], side, *numbers[1:]), " ".join(
        re.findall(r"[^\W\d_]+", plain.casefold().replace(" to ", " "))
    )


def alphabetical(cells: Sequence[str]) -> list[int]:
    """Return the positions of the cells as a person sorts them: capitals beside small letters, 2 before 10."""

    def key(at: int) -> tuple[list[tuple[str, int]], str]:
        parts = re.split(r"(\d+)", cells[at].casefold())
        return [(part, 0) if not part.isdecimal() else ("", int(part)) for part in parts], cells[at]

    return sorted(range(len(cells)), key=key)
