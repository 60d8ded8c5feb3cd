"""The exhibits of the paper on m-privacy for collaborative data publishing (2011)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from _exhibits.exhibit import Exhibit, Experiment, Paper, Results, by_claims, by_goals

_GROUPS = "groups of Adult's records, occupation sensitive, k = 50, ℓ = 4, n_G = 15, m = 5; by checks, mean of groups"
_CHECKS = 0  # of a pair of checks and seconds


def _most(by_x: Mapping[Any, Any], way: str) -> float:
    return max(means[way][_CHECKS] for means in by_x.values())


def _by_power(results: Results) -> Iterator[tuple[str, bool]]:
    small, large = results["figure 6, 150"], results["figure 6, 750"]
    rivals = ("direct", "top-down", "bottom-up")
    yield (
        "150 records: binary needs the fewest checks at its worst m",
        all(_most(small, "binary") <= _most(small, way) for way in rivals),
    )
    yield (
        "750 records: top-down far fewer than direct and bottom-up at the worst m",
        all(10 * _most(large, "top-down") <= _most(large, way) for way in ("direct", "bottom-up")),
    )


def _by_providers(results: Results) -> Iterator[tuple[str, bool]]:
    small, large = results["figure 7, 150"], results["figure 7, 750"]
    first, last = min(small), max(small)
    yield (
        "150 records: the checks of every heuristic grow with the providers",
        all(small[first][way][0] < small[last][way][0] for way in ("direct", "top-down", "bottom-up", "binary")),
    )
    yield (
        "750 records: top-down stays low",
        10 * large[last]["top-down"][0] <= min(large[last]["direct"][0], large[last]["bottom-up"][0]),
    )  # fmt: skip


def _by_records(results: Results) -> Iterator[tuple[str, bool]]:
    found = results["figure 8"]
    few, many = min(found), max(found)
    yield ("few records: direct and bottom-up are efficient", found[few]["direct"][0] <= found[few]["top-down"][0])
    yield (
        "from 15 records a provider on, top-down needs fewer checks than direct and bottom-up",
        all(
            found[each]["top-down"][0] < min(found[each]["direct"][0], found[each]["bottom-up"][0])
            for each in found
            if each >= 15
        ),
    )
    assert few < many


def _straight(results: Results) -> Iterator[tuple[str, bool]]:
    for row in results["figures"]:
        if "fitness over records a provider" in row["what"]:
            fit = float(row["measured"].rpartition("R² ")[2])
            yield f"{row['what']} is a line (R² {fit})", fit >= 0.9


def _query_errors(results: Results, figure: str) -> Iterator[tuple[str, bool]]:
    at = {(each["program"], each["records"], each["m"], each["k"], each["l"]): each for each in results[figure]}
    for (program, *where), each in at.items():
        if program == "provider-aware":
            rival = at[("baseline", *where)]
            x = ", ".join(f"{name} = {value:,}" for name, value in zip(("|T|", "m", "k", "ℓ"), where, strict=True))
            yield f"{x}: query error at most the baseline's", each["error"] <= rival["error"]


def _adaptive(results: Results) -> Iterator[tuple[str, bool]]:
    seconds = results["11"]
    large = max(seconds["adaptive"])
    least = min(seconds["binary"][large], seconds["top-down"][large])
    yield (f"|T| = {large:,}: adaptive at most 1.2 of the better of both", seconds["adaptive"][large] <= 1.2 * least)


_ANONYMIZATION = "Adult, 45,222 records of 10 providers (exponential), m = 3, k = 30, ℓ = 4, 2,500 queries"

M_PRIVACY = Paper(
    "m-privacy",
    "m-privacy for collaborative data publishing (2011)",
    (
        Experiment(
            "m_privacy_verification",
            _GROUPS,
            (
                Exhibit(
                    "Figure 6",
                    "verification over m: binary is best for small groups, top-down for large ones",
                    by_claims(_by_power),
                    tuple(f"{size} records, 15" for size in (150, 750)),
                    ("m-privacy-m-150-checks", "m-privacy-m-750-checks"),
                    "privacy/m_privacy/strategies.py",
                ),
                Exhibit(
                    "Figure 7",
                    "verification over the providers: exponential growth, but for top-down on large groups",
                    by_claims(_by_providers),
                    ("300 records, 30", "750 records, 30"),
                    ("m-privacy-providers-150-checks", "m-privacy-providers-750-checks"),
                    "privacy/m_privacy/strategies.py",
                ),
                Exhibit(
                    "Figure 8: records",
                    "verification over the records a provider has",
                    by_claims(_by_records),
                    ("adaptive with",),
                    ("m-privacy-records-checks",),
                    "privacy/m_privacy/strategies.py",
                ),
            ),
            {"GROUPS": 1},
        ),
        Experiment(
            "m_privacy_shares",
            _GROUPS + "; exponential and uniform shares",
            (
                Exhibit(
                    "Figure 8: fitness",
                    "the fitness score grows linearly with the records a provider has",
                    by_claims(_straight),
                    ("Figure 8",),
                    ("m-privacy-8-fitness-exponential", "m-privacy-8-fitness-uniform"),
                    "privacy/m_privacy/strategies.py",
                ),
            ),
            {"GROUPS": 2, "SIZES": (150,), "NUMBERS": (6, 10, 15)},
        ),
        Experiment(
            "m_privacy_anonymization",
            _ANONYMIZATION,
            (
                Exhibit(
                    "Figure 9",
                    "provider-aware anonymization has at most the baseline's query error for every m",
                    by_claims(lambda results: _query_errors(results, "9")),
                    ("m = ", "provider-aware", "baseline"),
                    ("m-privacy-9-seconds", "m-privacy-9-error"),
                    "anonymize/mondrian/algorithm.py",
                ),
                Exhibit(
                    "Figure 10",
                    "the same over the number of records",
                    by_claims(lambda results: _query_errors(results, "10")),
                    ("seed",),
                    ("m-privacy-10-seconds", "m-privacy-10-error"),
                    "anonymize/mondrian/algorithm.py",
                ),
                Exhibit(
                    "Figure 11",
                    "adaptive verification is at least as fast as binary and top-down",
                    by_claims(_adaptive, "All ways take milliseconds here, most of which is the search for cuts."),
                    ("no row",),
                    ("m-privacy-11-seconds",),
                    "privacy/m_privacy/strategies.py",
                ),
                Exhibit(
                    "Figure 12",
                    "the same over k and over ℓ",
                    by_claims(
                        lambda results: (claim for part in ("12-k", "12-l") for claim in _query_errors(results, part))
                    ),
                    ("no row",),
                    (
                        *("m-privacy-12-k-seconds", "m-privacy-12-k-error"),
                        *("m-privacy-12-l-seconds", "m-privacy-12-l-error"),
                    ),
                    "anonymize/mondrian/algorithm.py",
                ),
            ),
            {
                "REPEATS": 1,
                "MS": (1, 3, 9),
                "RECORDS": (5_000, 45_222),
                "OTHER_SEEDS": (),
                "FEW_RECORDS": (300, 3_000),
                "KS": (10, 100),
                "LS": (2, 7),
            },
        ),
        Experiment(
            "m_privacy_fitness",
            "Adult, 10,000 records of 10 providers, k = 30, ℓ = 4; six ways to make one score of a cut's parts",
            (
                Exhibit(
                    "Algorithm 2, line 5",
                    "cutting by fitness keeps the query error constant in m and below the baseline's",
                    by_goals("The paper does not say how the parts' scores become one; no way does both."),
                    charts=("m-privacy-9-fitness-exponential", "m-privacy-9-fitness-uniform"),
                    code="privacy/m_privacy/strategies.py",
                ),
            ),
            {"MS": (1, 5), "ALPHAS": (0.8,), "RECORDS": 5_000},
        ),
    ),
)
