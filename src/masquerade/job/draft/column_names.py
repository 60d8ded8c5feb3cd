"""What the name of a column tells about it, in a few languages of tables."""

from __future__ import annotations

import re


def _listed(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


# People are found by these alone, whatever the cells look like.
_ALWAYS_IDENTIFIES = _listed(
    "ssn nino nhs mrn email mail phone telephone telefon mobile passport iban uuid guid username login"
)
# These identify where nearly every row has its own.
_MAY_IDENTIFY = _listed(
    """id ids key number no nr name names surname lastname firstname fullname forename vorname nachname address street
    adresse strasse account card patient person customer member record row index licence license url ip"""
)
_KNOWN_OF_PEOPLE = _listed(
    """age alter birth birthday birthdate born dob geburtsdatum sex gender geschlecht zip zipcode postcode postal plz cp
    cap city town village state province region county country nationality citizenship native race ethnic ethnicity
    colour marital married relationship children household education school degree occupation job profession employer
    workclass religion language height weight"""
)
_CODES = _listed("zip zipcode postcode postal plz cp cap code icd sic naics fips cpt")
_DATES = _listed("date day birth birthday birthdate dob born geburtsdatum since when admitted discharged")
_SENSITIVE = _listed(
    """disease diagnosis condition illness salary income wage religion politics party sexuality orientation hiv
    medication treatment offence crime debt score"""
)


def words_of(name: str) -> set[str]:
    """The words of a column's name: `birthDate`, `birth_date` and `Birth date` are birth and date."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    words = re.split(r"[^a-z0-9äöüßéèà]+", spaced.lower())
    return {*words, "".join(words)} - {""}


def always_identifies(name: str) -> bool:
    """Return whether a column of this name identifies people by itself."""
    return bool(words_of(name) & _ALWAYS_IDENTIFIES)


def may_identify(name: str) -> bool:
    """Return whether a column of this name identifies people if its cells are nearly all different."""
    return bool(words_of(name) & _MAY_IDENTIFY)


def known_of_people(name: str) -> bool:
    """Return whether others know this of a person, or can look it up."""
    return bool(words_of(name) & _KNOWN_OF_PEOPLE)


def names_a_code(name: str) -> bool:
    """Return whether the digits of such a column are no number."""
    return bool(words_of(name) & _CODES)


def names_a_date(name: str) -> bool:
    """Return whether eight digits in such a column are a date."""
    return bool(words_of(name) & _DATES)


def sounds_sensitive(name: str) -> bool:
    """Return whether people mind that others learn this."""
    return bool(words_of(name) & _SENSITIVE)
