"""What cells look like that identify people: addresses, numbers with check digits, and people's names.

A column is judged by its different cells, weighted by their rows; of very many, by some thousands spread over them. Who
would rather keep a column that is left out here adds it to the job.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from masquerade.jobs.drafts.column_names import folded
from masquerade.jobs.drafts.profile import Profile

# --- common names -------------------------------------------------------------------------------------------
# Frequent first and last names of the larger European languages, by which a column of people's names is
# recognised.
#
# In small letters without accents. Words that also name colours, jobs, places or months are left out.

_FIRST = """
    aaron adam adrian agnes agnieszka aino alan albert alejandro aleksander alessandro alessia alexander alexandra
    alfred alice alicia amanda amelia ana anastasia anders andrea andreas andrew andrzej angela angelika anita
    anja anna anne annika antoine anton antonio arthur astrid barbara bartosz beatriz benjamin bernard bernd
    birgit bjorn brian brigitte camille carla carlos carmen carol caroline catherine cecilia celine charles chiara
    chloe christina christine christoph christopher claire claudia clement cristina daniel daniela daniele david
    deborah denise dennis diego dieter dimitris dominik donald donna dorota dorothy eduardo edward eero eleni
    elena elias elizabeth ella emil emilia emily emma emmanuel enrico erik erika erkki ester eva ewa fabian
    federica felix fernando filip florian francesca francesco francisco francois frank franz frederic fredrik
    gabor gabriel gabriele georg george georgios gerard gerhard giorgio giovanna giovanni giulia giuseppe gonzalo
    grazyna gregory guillaume gunther gustav hanna hannah hannele hans harald harry heather heidi heinrich heinz
    helen helena helga henrik herbert horst hugo ian ines ingrid irena isabel isabella istvan ivan ivana jacek
    jack jacob jacques jakub james jan jana jane janet jaroslav javier jean jennifer jens jerzy jessica jesus jiri
    joanna joao joel johan johanna johannes john jonas jonathan jorge jorgen jose josef joseph joshua juan judith
    juha juhani julia julie julien jurgen justine kaija kari karen karin karl karolina katarzyna katarina kateryna
    katerina katherine kathleen kenneth kerstin kevin kimberly klaus konstantinos krystyna krzysztof lars lasse
    laszlo laura laurent lea lena leon leonardo leonie liam liisa lina linda lisa lorenzo louise luca lucas lucia
    lucie luis lukas lukasz maciej magdalena malgorzata manfred manuel manuela marcel marcin marco marcus margaret
    margarita maria marie marina mario marjatta markus marta martin martina mary matteo matthew matthias matti
    maurice maximilian melissa michael michaela michal michel michelle mikael mikko miguel miroslav mohamed
    mohammed monica monika monique muhammad mustafa mehmet ahmet ayse fatma emine natalia nathalie nicholas nicola
    nicolas nicole niels nikolaos nils nina noah nora olaf olga oliver olivia olivier oscar otto pablo pamela
    paola paolo pascal patricia patrick patrizia paul paula pauline pawel pedro pekka petr petra peter philip
    philippe pierre piotr rafael rainer ralf raquel rebecca renata renate ricardo richard rita robert roberto
    roger roland ronald rosa rosario ruth ryan sabine salvatore samantha samuel sandor sandra sara sarah sebastian
    sergio silvia simon simone sofia sophie stanislaw stefan stefania stefano stephanie stephen steven susan
    susanne sven svetlana sylvia sylvie tamara tatiana teresa theresa thierry thomas tiago timo timothy tobias
    tomas tomasz tuula ulrich ulrike ursula ute valentina valerie vaclav vera veronica veronika vincent viktor
    vladimir waltraud werner wilhelm william wojciech wolfgang yannick yves zbigniew zdenek zofia zsuzsanna zoltan
"""
_LAST = """
    smith jones williams johnson davis wilson anderson thompson robinson harris clark lewis allen wright scott
    moore evans edwards roberts hughes thomas phillips turner parker collins murphy kelly sullivan obrien mcdonald
    campbell stewart morris rogers bailey richardson watson brooks bennett griffiths owen jenkins miller taylor
    walker khan patel singh ahmed ali hussain begum muller mueller schmidt schneider weber meyer wagner becker
    schulz schulze hoffmann schafer schaefer bauer koch richter schroder schroeder neumann zimmermann kruger
    krueger hofmann hartmann schmitt krause meier lehmann schmid maier kohler herrmann walter mayer huber kaiser
    fuchs peters scholz moller moeller keller vogel friedrich gunther berger winkler roth baumann gruber pichler
    steiner moser egger brunner bernard dubois durand moreau lefebvre leroy roux bertrand morel fournier girard
    bonnet dupont lambert fontaine rousseau guerin henry faure roussel chevalier gauthier perrin clement morin
    dumont robin masson garcia rodriguez gonzalez fernandez lopez martinez sanchez perez gomez jimenez ruiz
    hernandez diaz moreno munoz alvarez romero alonso gutierrez navarro torres dominguez vazquez ramos gil ramirez
    serrano molina morales suarez ortega delgado ortiz rubio marin sanz iglesias rossi russo ferrari esposito
    bianchi colombo ricci marino greco bruno gallo conti mancini costa giordano rizzo lombardi moretti barbieri
    fontana santoro mariani rinaldi caruso ferrara galli martini longo vitale silva santos ferreira pereira
    oliveira rodrigues martins sousa souza fernandes goncalves gomes lopes marques alves almeida ribeiro pinto
    carvalho teixeira moreira correia mendes nunes soares vieira monteiro cardoso jong jansen vries bakker dijk
    visser smit meijer boer mulder hendriks leeuwen dekker brouwer dijkstra peeters janssens maes willems mertens
    claes goossens wouters nowak kowalski kowalska wisniewski wisniewska wojcik kowalczyk kaminski kaminska
    lewandowski lewandowska zielinski zielinska szymanski szymanska wozniak dabrowski dabrowska kozlowski
    kozlowska jankowski mazur kwiatkowski krawczyk andersson johansson karlsson nilsson eriksson larsson olsson
    persson svensson gustafsson pettersson jonsson jansson hansson bengtsson lindberg lindstrom jensen nielsen
    hansen pedersen andersen christensen larsen sorensen rasmussen jorgensen petersen madsen kristensen olsen
    johansen haugen hagen kristiansen karlsen johnsen eriksen korhonen virtanen makinen nieminen makela hamalainen
    laine heikkinen koskinen jarvinen lehtonen lehtinen saarinen salminen heinonen niemi heikkila salonen kinnunen
    turunen novak novakova svoboda svobodova novotny novotna dvorak dvorakova prochazka prochazkova kucera
    kucerova vesely vesela horak horakova nemec nemcova pokorny pokorna nagy kovacs toth szabo horvath varga kiss
    molnar nemeth farkas balogh papp takacs juhasz lakatos meszaros papadopoulos papadopoulou georgiou dimitriou
    ioannou nikolaidis pappas vasileiou konstantinou yilmaz kaya demir celik sahin yildiz yildirim ozturk aydin
    ozdemir arslan dogan kilic aslan cetin ivanov ivanova petrov petrova popescu ionescu nguyen
"""

COMMON_NAMES = frozenset(f"{_FIRST} {_LAST}".split())


# --- personal cells -----------------------------------------------------------------------------------------

_LOOKED_AT = 4000  # of the different cells, where Python looks at each
_SOME, _MOST = 0.3, 0.8  # of the rows

_EMAIL = r"[^\s@]@[^\s@]+\.[a-zA-Z]{2,}"
_URL = r"(?i)\bhttps?://|^www\."
_IBAN = r"^[A-Z]{2}[0-9]{2}( ?[A-Z0-9]{4}){2,7}( ?[A-Z0-9]{1,4})?$"
_STREETS = (
    r"street|road|avenue|lane|drive|boulevard|square|close|crescent|court|st|rd|ave|ln|dr|blvd|rue|chemin|all[ée]e|impasse|"
    r"calle|avenida|avda|plaza|paseo|via|viale|piazza|corso|vicolo|rua|travessa|praça|largo|ul|ulica|aleja|os|"
    r"utca|út|tér|sokak|sokağı|cadde|caddesi|mahallesi|odos|náměstí|ulice"
)
_STREET_ENDS = (
    r"stra(ss|ß)e|str\.?|weg|platz|gasse|allee|ufer|ring|damm|straat|laan|plein|gracht|dijk|"
    r"gatan|gata|v[äa]gen|gade|vej|gate|veien|vei|katu|tie|kuja"
)
_ADDRESS = (
    rf"(?i)^[0-9]+[a-z]?,? (\S+ ){{0,4}}({_STREETS})\b|"  # 12 High Street, 5 rue de la Paix
    rf"^({_STREETS})\.? (\S+ ){{0,4}}\S*[0-9]+|"  # Calle Mayor 12, ul. Długa 5
    rf"^\S.*({_STREET_ENDS})\s*[0-9]+|"  # Hauptstraße 12
    rf"^({_STREETS})\.? \S+|^(\S+ ){{1,3}}({_STREETS})\.?$|^\S+(stra(ss|ß)e|straat|gatan|vägen|gasse)$"
)
_PHONE = (
    r"^(\+|00)[1-9][0-9 ()./-]{6,20}$|^\(?0[0-9()]{1,5}[ ./()-]+[0-9][0-9 ./-]{4,15}$|^0[0-9]{8,13}$|"
    r"^\(?[2-9][0-9]{2}\)?[ .-][0-9]{3}[ .-][0-9]{4}$"
)
_TITLES = (
    r"^(Dr|Prof|Mr|Mrs|Ms|Miss|Herr|Frau|Hr|Fr|M|Mme|Mlle|Sr|Sra|Srta|Don|Doña|Dott|Dott\.ssa|Sig|Sig\.ra|Dhr|Mevr|Mw|Pan|"
    r"Pani|Ing|Mag)\.? \p{Lu}"
)

# What a share of the rows must look like, at least; first what is surest.
_PATTERNS: tuple[tuple[str, str, float], ...] = (
    ("e-mail addresses", _EMAIL, 0.0),
    ("web addresses", _URL, 0.01),
    ("network addresses", r"^([0-9]{1,3}\.){3}[0-9]{1,3}$|^([0-9a-fA-F]{0,4}:){3,7}[0-9a-fA-F]{1,4}$", _SOME),
    ("social security numbers", r"^[0-9]{3}-[0-9]{2}-[0-9]{4}$", _SOME),
    ("phone numbers", _PHONE, _SOME),
    ("street addresses", _ADDRESS, _SOME),
    ("keys that computers make", r"(?i)^\{?[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}\}?$|^[0-9a-f]{32,}$", _SOME),
    ("people with their titles", _TITLES, 0.1),
)

_WORD = re.compile(r"[^\W\d_]+(?:[-'’`.][^\W\d_]+)*\.?")
_SURNAME_FIRST = re.compile(r"[^\W\d_][^\W\d_ '’.-]*(?:[ '’.-]+[^\W\d_]+)*, ?[^\W\d_]+(?:[ '’.-]+[^\W\d_]*)*")
_CITY_STATE = re.compile(r".*, ?[A-Z]{2}")
_MOST_WORDS = 4  # of a name
_FEW_NAMED, _ARE_COMMON, _FEWEST, _OWN = 4, 0.08, 3, 0.2
_MANY, _VERY_MANY, _SHARE = 30, 500, 0.2  # different capitalised words


@dataclass(frozen=True, eq=False)
class Cells:
    """A column's different cells, and some of them with the share of the looked-at rows that have each."""

    column: Profile

    @cached_property
    def all(self) -> pa.Array:
        """All of them."""
        return pa.array(self.column.cells, pa.string())

    @cached_property
    def some(self) -> tuple[str, ...]:
        """At most some thousands, spread evenly."""
        return self.column.cells[:: self._step]

    @cached_property
    def _step(self) -> int:
        return 1 + len(self.column.cells) // _LOOKED_AT

    @cached_property
    def _weights(self) -> NDArray[np.float64]:
        rows = self.column.counts[:: self._step].astype(np.float64)
        weights: NDArray[np.float64] = rows / max(rows.sum(), 1.0)
        return weights

    def share(self, fits: Iterable[bool]) -> float:
        """The share of the rows of the cells looked at that fit."""
        return float(self._weights[np.fromiter(fits, bool, len(self.some))].sum())

    def share_matching(self, pattern: str) -> float:
        """The share of all rows whose cell holds the pattern."""
        hits = pc.match_substring_regex(self.all, pattern).to_numpy(zero_copy_only=False)
        return float(self.column.counts[hits].sum() / max(self.column.present, 1))

    @cached_property
    def words(self) -> tuple[tuple[str, ...], ...]:
        """The words of each cell looked at, as written."""
        return tuple(tuple(_WORD.findall(cell)) for cell in self.some)

    @cached_property
    def only_words(self) -> tuple[bool, ...]:
        """Whether each is a few words and nothing else, as a name is."""
        return tuple(
            0 < len(words) <= _MOST_WORDS and not any(sign.isdigit() for sign in cell)
            for cell, words in zip(self.some, self.words, strict=True)
        )


def identifying_cells(cells: Cells) -> str | None:
    """Return what the cells are that identifies people, whatever the column is called; None if nothing is seen."""
    column = cells.column
    if column.type == "date" or not column.cells:
        return None
    if (numbers := _numbers(cells)) is not None or column.type == "number":
        return numbers
    for what, pattern, least in _PATTERNS:
        if cells.share_matching(pattern) > least:
            return what
    if any(map(_is_iban, pc.filter(cells.all, pc.match_substring_regex(cells.all, _IBAN)).to_pylist())):
        return "bank accounts"
    return None


def _numbers(cells: Cells) -> str | None:
    """Numbers with the check digit of a card or of a patient, or too long for a measure."""
    column = cells.column
    if len(column.cells) < _FEWEST + 2:
        return None
    digits = [re.sub(r"[ -]", "", cell) for cell in cells.some]
    for what, is_one in (("card numbers", _is_card), ("NHS numbers", _is_nhs)):
        if cells.share(map(is_one, digits)) >= _MOST:
            return what
    plain = pc.match_substring_regex(cells.all, r"^[0-9]{9,19}$")
    spaced = pc.match_substring_regex(cells.all, r"^[0-9]{2,3}( [0-9]{3}){2,}$")
    if pc.all(spaced).as_py() or (pc.all(plain).as_py() and column.distinct_ratio >= _MOST - _SOME):
        return "long numbers, as those of accounts and telephones are"
    return None


def _is_card(digits: str) -> bool:
    """Luhn's check of 13 to 19 digits."""
    if not 13 <= len(digits) <= 19 or not digits.isdecimal():
        return False
    signs = [*map(int, reversed(digits))]
    return (sum(signs[::2]) + sum(sum(divmod(2 * sign, 10)) for sign in signs[1::2])) % 10 == 0


def _is_nhs(digits: str) -> bool:
    if len(digits) != 10 or not digits.isdecimal():
        return False
    weighted = sum(weight * int(sign) for weight, sign in zip(range(10, 1, -1), digits, strict=False))
    return (11 - weighted % 11) % 11 == int(digits[9])


def _is_iban(cell: str) -> bool:
    plain = cell.replace(" ", "")
    return 15 <= len(plain) <= 34 and int("".join(str(int(sign, 36)) for sign in plain[4:] + plain[:4])) % 97 == 1


def people_in(cells: Cells) -> str | None:
    """Return why the cells are people's names; None if they are not, or nobody can tell."""
    if cells.column.type not in ("category", "text") or len(cells.column.cells) < _FEWEST:
        return None
    turned = (_SURNAME_FIRST.fullmatch(cell) is not None and not _CITY_STATE.fullmatch(cell) for cell in cells.some)
    if len(cells.column.cells) >= _MANY // 3 and cells.share(turned) >= _MOST:
        return "its cells are written as people's names are, last name first"
    if _share_of(cells, lambda word: word in COMMON_NAMES, few=_FEW_NAMED) >= _ARE_COMMON:
        return "its cells are people's names"
    return None


def names_among(cells: Cells, names: frozenset[str]) -> bool:
    """Return whether a good part of the cells holds names that another column of the table has."""
    return bool(names) and _share_of(cells, names.__contains__, few=_FEWEST, alone=False) >= _OWN


def _share_of(cells: Cells, is_name: Callable[[str], bool], *, few: int, alone: bool = True) -> float:
    """The share of the rows with a name; 0 if there are only few different ones."""
    named = [
        (fits or not alone) and any(is_name(folded(part)) for word in words for part in _parts(word))
        for fits, words in zip(cells.only_words, cells.words, strict=True)
    ]
    return cells.share(named) if sum(named) >= few else 0.0


def _parts(word: str) -> Sequence[str]:
    """A double name is two; O'Brien is one."""
    return re.sub(r"['’`.]", "", word).split("-")


def name_words(cells: Cells) -> frozenset[str]:
    """The words of a column of people's names, to look for in the others."""
    return frozenset(folded(part) for words in cells.words for word in words for part in _parts(word) if len(part) > 2)


def are_only_words(cells: Cells) -> bool:
    """Return whether the cells are a few words each and no numbers, as names are."""
    return cells.share(cells.only_words) >= _MOST


def might_be_names(cells: Cells) -> bool:
    """Return whether cells are capitalised words without numbers, and very many different ones."""
    column = cells.column
    many = len(column.cells) >= _MANY and (column.distinct_ratio >= _SHARE or len(column.cells) >= _VERY_MANY)
    if not many or column.type not in ("category", "text"):
        return False
    capital = (
        fits and all(word[0].isupper() or len(word) <= 3 for word in words) and words[-1][0].isupper()
        for fits, words in zip(cells.only_words, cells.words, strict=True)
    )
    return cells.share(capital) >= 1 - _SHARE / 2


_ICD = r"^[A-TV-Z][0-9][0-9AB](\.?[0-9A-KXZ]{1,4})?[*†!+]?$"
_ICD_DOTTED = r"^[A-TV-Z][0-9][0-9AB]\.[0-9A-KXZ]{1,4}"


def are_diagnosis_codes(cells: Cells) -> bool:
    """Return whether the cells are codes of ICD-10, some of them with a dot."""
    return (
        cells.column.type in ("code", "category")
        and len(cells.column.cells) >= _FEWEST
        and cells.share_matching(_ICD) >= 1 - _SHARE / 2
        and cells.share_matching(_ICD_DOTTED) >= _SHARE / 2
    )
