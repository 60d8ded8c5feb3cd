"""How many bits a bid takes in a session: enough for every score that its table can have, and no more.

All parties know the score's kind, the number of common records and the joint schema, so they agree without a message.
"""

from __future__ import annotations

from masquerade.crypto.circuits_library import BidWords
from masquerade.errors import Bug
from masquerade.utility.scores import FIXED_ONE

_FRACTION_BITS = FIXED_ONE.bit_length() - 1


def bid_words(score: str, n_records: int, n_attributes: int) -> BidWords:
    """Return the bid format for scores of this kind over `n_records` records and `n_attributes` attributes."""
    count_bits = max(1, n_records.bit_length())
    whole_bits = {
        # Gain and gain ratio are at most log2 of the classes, which are no more than the records.
        "gain-ratio": count_bits.bit_length(),
        "info-gain": count_bits.bit_length(),
        "info-gain-per-anonymity-loss": count_bits.bit_length(),
        "discernibility": 2 * count_bits,  # at most |T|²
        "certainty": count_bits,  # a penalty of at most 1 per record
    }
    if score not in whole_bits:
        raise Bug(f'nobody said how large the score "{score}" can be')
    # One bit for the sign and one for what rounding adds to a score at its bound.
    return BidWords(_FRACTION_BITS + whole_bits[score] + 2, max(1, (n_attributes - 1).bit_length()))
