"""Messy extracts as hospitals have them: people under names of many languages, remarks, and what is known of people."""

from __future__ import annotations

import random
from collections.abc import Callable

# None of them is among the names that Masquerade knows, a word for anything else, or a part of another.
UNKNOWN_NAMES = [
    f"{first}{last}"
    for first in ("Brax", "Quil", "Zorv", "Thwi", "Vexl", "Jynk", "Plov", "Gwex", "Druz", "Fyrk")
    for last in ("omby", "aster", "indle", "ewicz", "opulo", "unnen", "athio", "ersky")
]
KNOWN_NAMES = [
    *("Smith", "Jones", "Müller", "Schmidt", "Dubois", "Lefèvre", "García", "Fernández", "Rossi"),
    *("Esposito", "Silva", "Nowak", "Andersson", "Korhonen", "Novák", "Nagy", "Yılmaz", "Papadopoulos"),
    *("Jensen", "Hansen", "Peeters", "Maria", "Anna", "Giuseppe", "Jürgen", "François", "José"),
    *("Wojciech", "Björn", "Agnieszka"),
]

# Columns of people's names, as they are called in many languages.
NAME_COLUMNS = [
    *("name", "Name", "patient_name", "PatientName", "surname", "Last Name", "first_name", "forename"),
    *("full name", "maiden name", "Nachname", "Vorname", "Familienname", "Geburtsname", "nom", "prénom"),
    *("Nom de famille", "apellidos", "nombre", "Primer apellido", "cognome", "nome", "sobrenome"),
    *("apelido", "achternaam", "voornaam", "nazwisko", "imię", "efternamn", "förnamn", "fornavn"),
    *("etternavn", "sukunimi", "etunimi", "příjmení", "jméno", "vezetéknév", "keresztnév", "soyadı"),
    *("onoma", "next_of_kin", "consultant", "Hausarzt", "médecin"),
]

Draw = Callable[[random.Random], str]


def digits(draw: random.Random, count: int) -> str:
    return "".join(draw.choice("0123456789") for _ in range(count))


def nhs_number(draw: random.Random) -> str:
    while True:
        first = digits(draw, 9)
        check = (11 - sum((10 - at) * int(sign) for at, sign in enumerate(first)) % 11) % 11
        if check < 10:
            return f"{first[:3]} {first[3:6]} {first[6:]}{check}"


def iban(draw: random.Random) -> str:
    account = digits(draw, 18)
    check = 98 - int(f"{account}131400") % 97  # D, E are 13, 14
    return f"DE{check:02d}{account}"


def card(draw: random.Random) -> str:
    first = "4" + digits(draw, 14)
    total = sum(sum(divmod(2 * int(sign), 10)) if at % 2 == 0 else int(sign) for at, sign in enumerate(reversed(first)))
    return f"{first}{-total % 10}"


# What reaches or identifies a person. Each draws from few, so that cells repeat.
CONTACTS: dict[str, Draw] = {
    "e-mail": lambda draw: f"user{draw.randrange(40)}@example.org",
    "phone": lambda draw: f"+49 30 {5_550_100 + draw.randrange(40)}",
    "british phone": lambda draw: f"020 7946 0{100 + draw.randrange(40)}",
    "american phone": lambda draw: f"(555) 555-0{100 + draw.randrange(40)}",
    "iban": lambda draw: iban(random.Random(draw.randrange(40))),
    "card": lambda draw: card(random.Random(draw.randrange(40))),
    "nhs": lambda draw: nhs_number(random.Random(draw.randrange(40))),
    "address": lambda draw: f"{1 + draw.randrange(40)} High Street",
    "german address": lambda draw: f"Lindenstraße {1 + draw.randrange(40)}",
    "french address": lambda draw: f"{1 + draw.randrange(40)} rue de la Paix",
    "spanish address": lambda draw: f"Calle Mayor, {1 + draw.randrange(40)}",
    "polish address": lambda draw: f"ul. Długa {1 + draw.randrange(40)}",
    "network": lambda draw: f"192.0.2.{draw.randrange(40)}",
    "web": lambda draw: f"https://example.org/{draw.randrange(40)}",
}

DIAGNOSES = ("E11.9", "I10", "J45.0", "F32.1", "M54.5", "K21.9", "C50.4")
JOBS = ("Nurse", "Clerk", "Teacher", "Driver", "Engineer", "Farmer")
TOWNS = ("Leeds", "York", "Hull", "Bath", "Derby", "Crewe")


def plain_columns(draw: random.Random, rows: int) -> dict[str, list[str]]:
    """What is no identifier: people are described by it, or it is about their stay."""
    drawn: dict[str, Draw] = {
        "age": lambda draw: str(draw.randrange(18, 90)),
        "sex": lambda draw: draw.choice(["M", "F", "m", "f"]),
        "city": lambda draw: draw.choice(TOWNS),
        "job": lambda draw: draw.choice(JOBS),
        "native_country": lambda draw: draw.choice(["United Kingdom", "Ireland", "Poland", "India"]),
        "workclass": lambda draw: draw.choice(["Private", "Self-emp", "State-gov"]),
        "ward": lambda draw: draw.choice(["Cardiology", "Oncology", "Day Surgery"]),
        "diagnosis": lambda draw: draw.choice(DIAGNOSES),
    }
    return {name: [draw_one(draw) for _ in range(rows)] for name, draw_one in drawn.items()}


def people(draw: random.Random, rows: int, *, known: bool) -> list[list[str]]:
    """Each row's words of a person's name, of some dozens of people who come again and again."""
    pool = KNOWN_NAMES if known else UNKNOWN_NAMES
    chosen = [(draw.choice(pool), draw.choice(pool)) for _ in range(draw.choice([30, 60, 200]))]
    return [list(draw.choice(chosen)) for _ in range(rows)]


WRITTEN: dict[str, Callable[[list[str]], str]] = {
    "last": lambda names: names[1],
    "first last": " ".join,
    "last, first": lambda names: f"{names[1]}, {names[0]}",
    "capitals": lambda names: names[1].upper(),
    "titled": lambda names: f"Dr. {names[1]}",
}
