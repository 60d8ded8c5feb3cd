"""The attacks on a release, in the order in which they are reported. One is a function that looks at a scene."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from masquerade.data import Table
from masquerade.engine import Counts, Rows, value_counts, weighted_counts
from masquerade.privacy import reidentification_risk
from masquerade.risk.scene import MOST_RECORDS, Boxes, Finding, Need, Scene, histograms, people_of_groups, share_of

_HALVINGS = 64  # of 62 natural logarithms, to the last bit


@dataclass(frozen=True)
class Attack:
    """One way to learn from a release what it should not tell; its docstring is its page in the reference."""

    name: str
    summary: str  # goes on after a colon
    needs: tuple[Need, ...]
    run: Callable[[Scene], Iterator[Finding]]  # of a scene that has all that it needs


ATTACKS: list[Attack] = []


def attack(scene: Scene) -> list[Finding]:
    """Play every attack for which the scene has what it needs."""
    return [
        finding for each in ATTACKS if all(getattr(scene, need) for need in each.needs) for finding in each.run(scene)
    ]


Run = Callable[[Scene], Iterator[Finding]]


def _attack(name: str, summary: str, *needs: Need) -> Callable[[Run], Run]:
    """Declare an attack."""

    def declare(run: Run) -> Run:
        ATTACKS.append(Attack(name, summary, needs, run))
        return run

    return declare


# --- identity: whose record is it ---------------------------------------------------------------------------


@_attack("prosecutor", "the highest chance of finding the record of a person who is known to be in the release")
def _prosecutor(scene: Scene) -> Iterator[Finding]:
    """Somebody who knows that a person is in the release looks for that person's record."""
    sizes = scene.sizes
    risk = reidentification_risk(sizes)
    alone = f"{risk.unique:,} of {scene.records:,} records are unique"
    meaning = f"the least protected record is found with probability {risk.highest:.4g}; {alone}"
    yield Finding("prosecutor", risk.highest, meaning, scene.most_exposed(1 / sizes))


@_attack(
    "journalist", "the highest chance of finding the record of somebody of the outside table, or else as prosecutor"
)
def _journalist(scene: Scene) -> Iterator[Finding]:
    """Somebody looks for any person, among all people who might be in the release."""
    people, whose = people_of_groups(scene)
    highest = float((1 / people).max()) if people.size else 0.0
    fewest = int(people.min()) if people.size else 0
    meaning = f"in the least protected group {fewest:,} people of {whose} fit a record, so a guess is right with "
    yield Finding("journalist", highest, meaning + f"probability {highest:.4g}", scene.most_exposed(1 / people))


@_attack("marketer", "the share of records that are linked rightly when everybody is linked")
def _marketer(scene: Scene) -> Iterator[Finding]:
    """Somebody links everybody, and is content with the share that is right."""
    # The mean, over the records, of 1 / the people who fit.
    people, whose = people_of_groups(scene)
    sizes = scene.sizes
    mean = float((sizes / people).sum() / sizes.sum()) if sizes.size else 0.0
    meaning = f"who links every record to one of the people of {whose} who fit it is right in {mean:.2%}"
    yield Finding("marketer", mean, meaning)


@_attack(
    "population-uniqueness-zayatz", "the share of records that are unique in the population, estimated by Zayatz (1991)"
)
def _zayatz_uniqueness(scene: Scene) -> Iterator[Finding]:
    """Population uniqueness by Zayatz' estimator."""
    # The sizes of the release's groups are taken for those of the population; Bayes' rule then says how likely a record
    # that is unique here is unique there.
    population, whence = scene.population_size
    records = scene.records
    chance = zayatz(scene.sizes, records / population) if records else 0.0
    unique = int(np.count_nonzero(scene.sizes == 1))
    share = unique * chance / records if records else 0.0
    meaning = (
        f"of {unique:,} records that are unique here, about {unique * chance:,.1f} are unique among "
        f"{population:,} people ({whence}), by Zayatz"
    )
    yield Finding("population-uniqueness-zayatz", share, meaning, scene.most_exposed((scene.sizes == 1) * chance))


def zayatz(sizes: Counts, fraction: float) -> float:
    """Return the chance that a group of one is one of the population, too; `fraction` of it was sampled."""
    if not np.any(sizes == 1):
        return 0.0
    of_size = value_counts(sizes, int(sizes.max()) + 1)[1:]
    size = np.arange(1, of_size.size + 1)
    seen_once = of_size * size * fraction * (1 - fraction) ** (size - 1)  # one of `size` people was drawn
    return float(seen_once[0] / seen_once.sum())


@_attack(
    "population-uniqueness-ewens", "the share of the population that is unique, estimated by Ewens' sampling formula"
)
def _ewens_uniqueness(scene: Scene) -> Iterator[Finding]:
    """Population uniqueness by Ewens' sampling formula."""
    # θN/(θ + N − 1) people of N are unique (Samuels 1998); the one parameter θ is fitted to the number of groups.
    population, whence = scene.population_size
    share = ewens(int(scene.sizes.size), scene.records, population)
    meaning = f"about {share:.2%} of {population:,} people ({whence}) are unique, by Ewens' sampling formula"
    yield Finding("population-uniqueness-ewens", share, meaning)


def ewens(groups: int, records: int, population: int) -> float:
    """Return the share of the population that is unique, where a sample of it falls into `groups` groups."""
    if not groups or records < 1:
        return 0.0
    if groups >= records:
        return 1.0  # all are unique, however many there are
    position = np.arange(records, dtype=np.float64)
    terms = np.empty_like(position)  # one array for all steps: making it takes longer than filling it
    low, high = 1e-12, 1e15
    for _ in range(_HALVINGS):  # Σ θ/(θ + i) grows with θ
        middle = (low * high) ** 0.5
        np.divide(middle, np.add(middle, position, out=terms), out=terms)
        low, high = (middle, high) if terms.sum() < groups else (low, middle)
    return float(low / (low + population - 1))


@_attack(
    "linkage",
    "people of the outside table for whom one record alone fits; their rows are those of that table",
    "outside",
)
def _linkage(scene: Scene) -> Iterator[Finding]:
    """Somebody links the people of an outside table with records, by the attributes that both have."""
    assert scene.outside is not None
    people, who_fits = scene.outsiders
    fitting = np.zeros(people.sizes.size, np.int64)  # records, by person
    for size, met in zip(scene.groups.sizes, who_fits, strict=True):
        fitting[met] += size
    of_rows = fitting[people.groups]
    found = np.flatnonzero(of_rows == 1)
    linked = of_rows[of_rows > 0]
    confidence = float((1 / linked).mean()) if linked.size else 0.0
    meaning = (
        f"{found.size:,} of {of_rows.size:,} people have one record alone that fits by {', '.join(people.names)}; "
        f"a guess for each of the {linked.size:,} with any is right with probability {confidence:.4g} on average"
    )
    rows = tuple(scene.outside.source_row(int(row)) + 1 for row in found[:MOST_RECORDS])
    yield Finding("linkage", float(found.size), meaning, rows)


# --- sensitive values ---------------------------------------------------------------------------------------
# Homogeneity and background knowledge: Machanavajjhala et al.; skewness: Li et al. A class is learned the same way: the
# purer the groups are in it, the better for a classifier, and for an attacker.


HOMOGENEITY = "homogeneity"


@_attack(
    HOMOGENEITY,
    "the share of records whose group has a single value of a sensitive attribute, or of the class",
    "learnable",
)
def _homogeneity(scene: Scene) -> Iterator[Finding]:
    """All records of a group have one sensitive value, or one class."""
    for name, counts in histograms(scene, scene.learnable):
        exposed = (counts > 0).sum(axis=1) == 1
        share = share_of(scene, exposed)
        meaning = (
            f"{share:.2%} of the records are in groups with a single {name}: "
            "whoever knows the quasi-identifiers of one of these people learns it"
        )
        yield Finding(HOMOGENEITY, share, meaning, scene.most_exposed(exposed.astype(float)), name)


SKEWNESS = "skewness"


@_attack(
    SKEWNESS,
    "the largest rise in the frequency of a sensitive value, or of a class, from the release to a group",
    "learnable",
)
def _skewness(scene: Scene) -> Iterator[Finding]:
    """A sensitive value, or a class, is far more frequent in a group than in the release."""
    for name, counts in histograms(scene, scene.learnable):
        whole = counts.sum(axis=0) / max(int(counts.sum()), 1)
        within = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        rise = (within - whole).max(axis=1, initial=0.0)
        highest = float(rise.max(initial=0.0))
        meaning = (
            f"in the worst group one {name} value is {highest * 100:.1f} points more frequent than in the whole release"
        )
        yield Finding(SKEWNESS, highest, meaning, scene.most_exposed(rise), name)


@_attack(
    "background-knowledge",
    "the share of records whose sensitive value is known to whoever can rule out one value",
    "sensitive",
)
def _background_knowledge(scene: Scene) -> Iterator[Finding]:
    """Somebody who can rule out one sensitive value knows the only other one."""
    for name, counts in histograms(scene, scene.sensitive):
        exposed = (counts > 0).sum(axis=1) <= 2
        share = share_of(scene, exposed)
        meaning = f"whoever can rule out one value of {name} for a person knows it for {share:.2%} of the people"
        yield Finding("background-knowledge", share, meaning, scene.most_exposed(exposed.astype(float)), name)


# --- insiders, and several releases -------------------------------------------------------------------------
# Releases must be of the same people; groups meet where their cells do.


@_attack(
    "subtraction",
    "the highest chance of finding another provider's record, for providers that leave out their own",
    "provider",
)
def _subtraction(scene: Scene) -> Iterator[Finding]:
    """Colluding providers of a joint release know their own records."""
    # Most is learned by those who leave the fewest others. In a group with records of more than m providers these are
    # the m with most records there; in one of fewer, all but the provider with fewest.
    assert scene.provider is not None
    if (found := scene.values_of(scene.provider)) is None:
        return
    names, counts = found
    m = min(scene.colluding, max(len(names) - 1, 0))
    colluding = np.minimum(m, np.count_nonzero(counts, axis=1) - 1)  # in each group, those who matter
    most_first = np.argsort(-counts, axis=1, kind="stable")
    ranked = np.take_along_axis(counts, most_first, axis=1)
    own = np.where(np.arange(len(names)) < colluding[:, None], ranked, 0).sum(axis=1)
    exposure = 1 / (scene.sizes - own)
    highest = float(exposure.max(initial=0.0))
    worst = int(exposure.argmax()) if exposure.size else 0
    who = most_first[worst, : colluding[worst]] if exposure.size else ()
    named = " and ".join(names[each] for each in who) or "nobody"
    meaning = (
        f"{named} can leave out own records and then finds a record of others with probability {highest:.4g}; "
        f"{int(np.count_nonzero(exposure == 1)):,} groups hide one record alone from some {m}"
    )
    yield Finding("subtraction", highest, meaning, scene.most_exposed(exposure))


@_attack(
    "intersection",
    "the share of records whose sensitive value only this and earlier releases together tell",
    "earlier",
    "sensitive",
)
def _intersection(scene: Scene) -> Iterator[Finding]:
    """The sensitive values that a person may have, by each of several releases."""
    # A person is in one group of each release, and where these share one sensitive value, it is theirs. Looked at is
    # every person of the original; without it, wherever groups of all releases meet. Somebody who fits no group of a
    # release is not in it, and it tells nothing of them.
    for name in scene.sensitive:
        with_it = [each for each in scene.earlier if name in each.arrow.column_names]
        if name not in scene.release.arrow.column_names or not with_it:
            continue
        share, rows = _told(scene, name, with_it)
        who = "people" if scene.original is not None else "records, at most,"
        meaning = f"for {share:.2%} of the {who} all releases together leave one value of {name}, each several"
        yield Finding("intersection", share, meaning, rows)


def _told(scene: Scene, name: str, earlier: list[Table]) -> tuple[float, tuple[int, ...]]:
    """Return the share that is told apart, and with the original its first rows."""
    groups, original = scene.groups, scene.original
    releases = [(groups, _values(scene.release, name, groups))]
    for release in earlier:
        boxes = scene.boxes_of(release, "the earlier release")
        releases.append((boxes, _values(release, name, boxes)))
    if original is None:
        spots, owners = _meets([boxes for boxes, _ in releases])
    else:
        spots = scene.boxes_of(original, "the original")
        owners = np.arange(spots.sizes.size)
    left: list[set[str] | None] = [None] * owners.size  # the values that are possible so far
    several = np.ones(owners.size, bool)
    for boxes, values in releases:
        known = [each for each in boxes.names if each in spots.names]
        for spot, met in enumerate(spots.over(known).meeting(boxes.over(known)) if known else ()):
            possible = set[str]().union(*(values[at] for at in met))
            if not possible:
                continue
            several[spot] &= len(possible) > 1
            so_far = left[spot]
            left[spot] = possible if so_far is None else so_far & possible
    told = several & np.array([each is not None and len(each) == 1 for each in left], bool)
    exposed = np.zeros((groups if original is None else spots).sizes.size, bool)
    exposed[owners[told]] = True
    if original is None:
        return float(groups.sizes[exposed].sum() / max(len(scene.release), 1)), ()
    rows = np.flatnonzero(exposed[spots.groups])
    first = tuple(original.source_row(int(row)) + 1 for row in rows[:MOST_RECORDS])
    return rows.size / max(len(original), 1), first


def _meets(releases: list[Boxes]) -> tuple[Boxes, Rows]:
    """Return the boxes in which a group of each release meet, and the group of the first for each."""
    spots, owners = releases[0], np.arange(releases[0].sizes.size)
    for other in releases[1:]:
        shared = [spots.names.index(each) for each in other.names]
        met = list(spots.over(other.names).meeting(other))
        own = np.repeat(np.arange(len(met)), [each.size for each in met])
        theirs = np.concatenate([np.empty(0, np.intp), *met])
        lo, hi = spots.lo[own], spots.hi[own]
        lo[:, shared] = np.maximum(lo[:, shared], other.lo[theirs])
        hi[:, shared] = np.minimum(hi[:, shared], other.hi[theirs])
        spots, owners = replace(spots, lo=lo, hi=hi), owners[own]
    return spots, owners


def _values(release: Table, name: str, boxes: Boxes) -> list[set[str]]:
    """The sensitive values of each group."""
    coded = release.coded(name)
    counts = coded.histograms(boxes.groups, boxes.sizes.size)
    return [{coded.labels[at] for at in np.flatnonzero(row)} for row in counts]


@_attack(
    "difference", "the highest chance of finding a record among those that two releases group differently", "earlier"
)
def _difference(scene: Scene) -> Iterator[Finding]:
    """The records that a group has beyond those of another release that must all be in it."""
    # All people of a group that meets one group alone of the other release are in that one: without them, few are left.
    exposure = np.zeros(scene.groups.sizes.size)
    for release in scene.earlier:
        before, _ = scene.boxes_of(release, "the earlier release").distinct()
        ours, of_group = scene.groups.over(before.names).distinct()
        exposed = np.zeros(ours.sizes.size)
        for group, left, _ in _left_over(ours, before):
            exposed[group] = max(exposed[group], 1 / left)
        for _, left, among in _left_over(before, ours):
            exposed[among] = np.maximum(exposed[among], 1 / left)
        exposure = np.maximum(exposure, exposed[of_group])
    highest = float(exposure.max(initial=0.0))
    meaning = (
        f"a group of one release without those of the other that lie in it leaves {round(1 / highest):,} records"
        if highest
        else "no group of one release lies in a group of the other and leaves some of its records"
    )
    yield Finding("difference", highest, meaning, scene.most_exposed(exposure))


def _left_over(outer: Boxes, inner: Boxes) -> Iterator[tuple[int, int, Rows]]:
    """Yield each outer group of which inner ones leave some records, how many, and the inner groups they may be in."""
    met = list(inner.meeting(outer))
    within = np.array([each.size == 1 for each in met], bool)
    homes = np.concatenate([np.empty(0, np.intp), *(each for each in met if each.size == 1)])
    taken = weighted_counts(homes, inner.sizes[within], outer.sizes.size).astype(np.int64)
    left = outer.sizes - taken
    for group, others in enumerate(outer.meeting(inner)):
        if taken[group] and left[group] > 0:
            yield group, int(left[group]), others[~within[others]]
