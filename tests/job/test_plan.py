"""What a job means: contradictions, names that nothing declares, files that are not there; all told at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from job.job_files import JOB, changed, write_job
from masquerade.errors import JobError
from masquerade.jobs.plan import Plan
from masquerade.privacy import KAnonymity, LDiversity


def plan(folder: Path, text: str = JOB) -> Plan:
    """All parts of a plan, as `anonymize` asks for them."""
    found = Plan(write_job(folder, text))
    found.data(), found.outputs(), found.algorithm(found.schema())
    found.settle()
    return found


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(JobError) as caught:
        plan(folder, text)
    job = f"{folder / 'job.toml'}: "
    assert all(line.startswith(job) for line in caught.value.lines)
    return [line.removeprefix(job) for line in caught.value.lines]


def test_a_good_job_becomes_objects(tmp_path: Path) -> None:
    found = plan(tmp_path)
    assert found.requirement.parts == (KAnonymity(["age", "job"], 2),)
    assert found.schema().names == ("age", "job", "city")
    assert (found.schema()["age"].lower, found.schema()["age"].upper) == (0, 120)
    assert found.algorithm(found.schema()).target == "income"
    assert found.published == ("income", "disease")
    assert found.outputs().table == tmp_path / "release.csv"


# --- each mistake, and its line ---

K_ENTRY = '[[privacy]]\nmodel = "k-anonymity"\nqid = ["age", "job"]\nk = 2\n'


def entry(lines: str) -> str:
    """The job with another [[privacy]] entry instead."""
    return changed(K_ENTRY, f"[[privacy]]\n{lines}")


MODELS = (
    "available: k-anonymity, l-diversity, entropy-l-diversity, recursive-l-diversity, t-closeness, "
    "alpha-k-anonymity, confidence-bounding, p-sensitive-k-anonymity, constrained-k-anonymity, m-privacy"
)
WRONG = {
    "no data": (changed('[data]\nsource = "people.csv"\n', ""), 'data: missing; give [data] with source = "table.csv"'),
    "no source": (changed('source = "people.csv"\n', ""), "data.source: missing; name a file or a database URL"),
    "parties instead of data": (
        changed('[data]\nsource = "people.csv"\n', '[parties.bank]\nsource = "b.csv"\nid = "ssn"\n'),
        'data: missing; [parties] belongs to mashup; one table needs [data] with source = "table.csv"',
    ),
    "no privacy": (changed(K_ENTRY, ""), "privacy: missing; give at least one [[privacy]] entry"),
    "no attributes": (
        '[data]\nsource = "people.csv"\n[[privacy]]\nmodel = "k-anonymity"\nk = 2\nqid = ["age"]\n',
        'privacy[1].qid: "age" is not among [attributes]',
        "attributes: missing; give an [attributes.NAME] table for each column to release",
    ),
    "no model": (entry('qid = ["age"]\nk = 2\n'), f"privacy[1].model: missing; {MODELS}"),
    "unknown model": (
        changed("k-anonymity", "k-anonimity"),
        f'privacy[1].model: no model "k-anonimity" (did you mean "k-anonymity"?); {MODELS}',
    ),
    "no boundary to keep to": (
        changed("k-anonymity", "constrained-k-anonymity"),
        "privacy[1]: constrained-k-anonymity needs boundaries: give an attribute of its qid max_generalization or "
        "max_width",
    ),
    "a boundary that is no node": (
        changed('taxonomy = "job.csv"', 'taxonomy = "job.csv"\nmax_generalization = ["Blue-colar", "ANY"]'),
        'attributes.job.max_generalization: "Blue-colar" is no node of taxonomy FOLDER/job.csv; the nearest is '
        '"Blue-collar"',
    ),
    "values without a boundary": (
        changed('taxonomy = "job.csv"', 'taxonomy = "job.csv"\nmax_generalization = ["Blue-collar"]'),
        'attributes.job.max_generalization: none for "Nurse", "Lawyer" of taxonomy FOLDER/job.csv; name a node above '
        "each value, or the value itself",
    ),
    "a width of categories": (
        changed('taxonomy = "job.csv"', 'taxonomy = "job.csv"\nmax_width = 3'),
        "attributes.job.max_width: belongs to numbers and dates without a taxonomy; with one, name nodes in "
        "max_generalization",
    ),
    "a width below 0": (
        changed('type = "continuous"', 'type = "continuous"\nmax_width = -1'),
        "attributes.age.max_width: must be a finite number of at least 0; for dates, days; got -1",
    ),
    "boundaries by name without a tree": (
        changed('type = "continuous"', 'type = "continuous"\nmax_generalization = ["[0, 20)"]'),
        "attributes.age.max_generalization: names nodes of a taxonomy; give taxonomy, or max_width instead",
    ),
    "clusters that ignore boundaries": (
        changed("k-anonymity", "constrained-k-anonymity").replace(
            'type = "continuous"', 'type = "continuous"\nmax_width = 5'
        )
        + '[algorithm]\nname = "k-member"\n',
        "algorithm: k-member pays no attention to the boundaries of constrained-k-anonymity; use greedy-cka",
    ),
    "clusters within no boundaries": (
        JOB + '[algorithm]\nname = "greedy-cka"\n',
        "algorithm: greedy-cka keeps to boundaries, and no attribute of the QID has max_generalization or max_width; "
        "give one, or use k-member",
    ),
    "no qid": (changed('qid = ["age", "job"]\n', ""), "privacy[1].qid: missing; k-anonymity needs it"),
    "no k": (changed("k = 2\n", ""), "privacy[1].k: missing; k-anonymity needs it"),
    "doubled attribute in a qid": (
        changed('["age", "job"]', '["age", "age"]'),
        "privacy[1].qid: must be a list of different attribute names; got [\"age\", \"age\"]",
    ),
    "no sensitive anywhere": (
        changed('sensitive = ["disease"]\n', "", entry('model = "l-diversity"\nqid = ["age", "job"]\nl = 2\n')),
        "privacy[1].sensitive: missing; l-diversity needs a sensitive attribute, here or in roles.sensitive",
    ),
    "confidence twice": (
        entry('model = "confidence-bounding"\nqid = ["age", "job"]\nconfidence = 0.5\nh = 0.4\n'),
        "privacy[1].h: the same as confidence; give one of them",
    ),
    "confidence above 1 by its letter": (
        entry('model = "confidence-bounding"\nqid = ["age", "job"]\nc = 2\n'),
        "privacy[1].c: must be a number above 0 and at most 1; got 2",
    ),
    "doubled value": (
        entry('model = "confidence-bounding"\nqid = ["age", "job"]\nc = 0.5\nvalues = ["HIV", "HIV"]\n'),
        "privacy[1].values: must be a list of one or more different values; got [\"HIV\", \"HIV\"]",
    ),
    "class inside a qid": (
        changed('class = "income"', 'class = "job"'),
        'roles.class: "job" is inside privacy[1].qid; it is published as it is: take it out of one',
    ),
    "sensitive inside a qid": (
        changed('sensitive = ["disease"]', 'sensitive = ["age"]'),
        'roles.sensitive: "age" is inside privacy[1].qid; it is published as it is: take it out of one',
    ),
    "unlisted attribute in a qid": (
        changed('["age", "job"]', '["age", "jobs"]'),
        'privacy[1].qid: "jobs" is not among [attributes] (did you mean "job"?)',
    ),
    "identifier as an attribute": (
        changed('identifiers = ["ssn"]', 'identifiers = ["city"]'),
        'roles.identifiers: "city" is never released, but attributes.city asks for it; drop one of them',
    ),
    "identifier as class": (
        changed('identifiers = ["ssn"]', 'identifiers = ["income"]'),
        'roles.identifiers: "income" is never released, but roles.class asks for it; drop one of them',
    ),
    "identifier as sensitive": (
        changed('identifiers = ["ssn"]', 'identifiers = ["disease"]'),
        'roles.identifiers: "disease" is never released, but roles.sensitive asks for it; drop one of them',
    ),
    "provider as an attribute": (
        changed('identifiers = ["ssn"]', 'provider = "city"'),
        'roles.provider: "city" is the provider, but attributes.city names it too; drop one of them',
    ),
    "provider as identifier": (
        changed('identifiers = ["ssn"]', 'identifiers = ["h"]\nprovider = "h"'),
        'roles.provider: "h" is the provider, but roles.identifiers names it too; drop one of them',
    ),
    "kept provider that is nobody": (
        JOB + "[output]\nkeep_provider = true\n",
        "output.keep_provider: true, but roles.provider names no column",
    ),
    "party's unlisted attribute": (
        JOB + '[parties.bank]\nsource = "b.csv"\nid = "ssn"\nattributes = ["jobb"]\n',
        'parties.bank.attributes: "jobb" is not among [attributes] (did you mean "job"?)',
    ),
    "no taxonomy": (
        changed('taxonomy = "job.csv"\n', ""),
        'attributes.job: a categorical attribute of a QID needs taxonomy = "file.csv", "file.yaml" or "flat"',
    ),
    "bounds on a category": (
        changed("[attributes.city]\n", "[attributes.city]\nmin = 3\n"),
        'attributes.city.min: bounds belong to attributes of type = "continuous" or "date"; this one is categorical',
    ),
    "min not below max": (changed("max = 120", "max = 0"), "attributes.age.min: must be below max, 0; got 0"),
    "text as a bound of numbers": (
        changed("max = 120", 'max = "old"'),
        'attributes.age.max: must be a number; got "old"',
    ),
    "date as a bound of numbers": (
        changed("max = 120", "max = 2020-01-01"),
        "attributes.age.max: must be a number; got 2020-01-01",
    ),
    "number as a bound of dates": (
        changed("[attributes.city]\n", '[attributes.city]\ntype = "date"\nmin = 3\n'),
        "attributes.city.min: must be a date such as 1980-12-31; got 3",
    ),
    "a day that is none": (
        changed("[attributes.city]\n", '[attributes.city]\ntype = "date"\nmin = "2020-02-30"\n'),
        'attributes.city.min: must be a date such as 1980-12-31; got "2020-02-30"',
    ),
    "dates the wrong way round": (
        changed("[attributes.city]\n", '[attributes.city]\ntype = "date"\nmin = 2020-01-01\nmax = "1999-01-01"\n'),
        'attributes.city.min: must be below max, "1999-01-01"; got 2020-01-01',
    ),
    "score without a class": (
        changed('class = "income"\n', "") + '[algorithm]\nscore = "gain-ratio"\n',
        'algorithm.score: "gain-ratio" needs a class attribute; '
        'without one, use "discernibility" or "certainty"',
    ),
    "everything may be suppressed": (
        JOB + "[algorithm]\nsuppression = 1\n",
        "algorithm.suppression: must be a number of at least 0 and below 1; got 1",
    ),
    "suppression over two QIDs": (
        JOB + '[[privacy]]\nmodel = "k-anonymity"\nqid = ["job"]\nk = 3\n[algorithm]\nsuppression = 0.1\n',
        "algorithm.suppression: all requirements must be over the same QID; k-anonymity is over age, job, "
        "and k-anonymity over job",
    ),
    "suppression with a model that it cannot be used with": (
        JOB + '[[privacy]]\nmodel = "t-closeness"\nqid = ["age", "job"]\nt = 0.5\n[algorithm]\nsuppression = 0.1\n',
        "algorithm.suppression: not possible with t-closeness, because a part of a violating group may satisfy it",
    ),
    "negative seed": (
        JOB + "[algorithm]\nseed = -1\n",
        "algorithm.seed: must be a whole number from 0 to 4294967295; got -1",
    ),
    "misspelt key of an algorithm": (
        JOB + '[algorithm]\nscor = ""\n',
        'algorithm.scor: unknown key (did you mean "score"?); '
        "known here: budget, measure, name, seed, verification, workload",
    ),
    "unknown algorithm": (
        JOB + '[algorithm]\nname = "tsd"\n',
        'algorithm.name: no algorithm "tsd" (did you mean "tds"?); '
        "available: auto, tds, mondrian, cheapest-box, datafly, k-member, greedy-cka",
    ),
    "mondrian with a score": (
        JOB + '[algorithm]\nname = "mondrian"\nscore = "certainty"\n',
        "algorithm.score: belongs to tds; mondrian does without it",
    ),
    "mondrian that is to choose by what it does not know": (
        JOB + '[algorithm]\nname = "mondrian"\nchoose = "fitness"\n',
        'algorithm.choose: must be "certainty" or "widest" (with a class on one table also "class-first" or '
        '"information-gain"); '
        'got "fitness"',
    ),
    "keys of two methods": (
        JOB + "[algorithm]\nsuppression = 0.1\nstrict = true\n",
        "algorithm.suppression: belongs to tds; auto does without it",
        "algorithm.strict: belongs to mondrian; auto does without it",
    ),
    "a measure that needs a class": (
        changed('class = "income"\n', "") + '[algorithm]\nmeasure = "majority"\n',
        'algorithm.measure: must be a measure that needs no class attribute; got "majority"',
    ),
    "keys that only parties have": (
        JOB + '[algorithm]\nargmax = "plain"\nadversary = "malicious"\nverification = "exact"\n',
        "algorithm.argmax: belongs to tds between parties",
        "algorithm.adversary: belongs to tds between parties",
    ),
    "unknown ending of the table": (
        JOB + '[output]\ntable = "release.xlsx"\n',
        'output.table: must end in .csv or .parquet; got "release.xlsx"',
    ),
    "unknown ending of the report": (
        JOB + '[output]\nreport = "report.pdf"\n',
        'output.report: must end in .html or .htm; got "report.pdf"',
    ),
    "the input overwritten": (
        JOB + '[output]\ntable = "./people.csv"\n',
        "output.table: people.csv is the table; it would be overwritten: name another file",
    ),
    "a taxonomy overwritten": (
        JOB + '[output]\ntable = "job.csv"\n',
        "output.table: job.csv is the taxonomy of job; it would be overwritten: name another file",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_each_mistake_has_its_line(case: str, tmp_path: Path) -> None:
    text, *lines = WRONG[case]
    assert [line.replace(str(tmp_path), "FOLDER") for line in problems(tmp_path, text)] == lines


def test_missing_folder_and_folder_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "there.csv").mkdir()
    assert problems(tmp_path, JOB + '[output]\ntable = "no/release.csv"\nreport = "people.csv/r.html"\n') == [
        f"output.table: there is no folder {tmp_path / 'no'}",
        f"output.report: there is no folder {tmp_path / 'people.csv'}",
    ]
    assert problems(tmp_path, JOB + '[output]\ntable = "there.csv"\n') == [
        f"output.table: {tmp_path / 'there.csv'} is a folder"
    ]


def test_links_do_not_hide_what_is_overwritten(tmp_path: Path) -> None:
    write_job(tmp_path)
    (tmp_path / "link.csv").symlink_to("people.csv")
    (tmp_path / "hard.csv").hardlink_to(tmp_path / "people.csv")
    for name in ("link.csv", "hard.csv"):
        assert problems(tmp_path, JOB + f'[output]\ntable = "{name}"\n') == [
            f"output.table: {name} is the table; it would be overwritten: name another file"
        ]
    (tmp_path / "r.csv").touch()
    (tmp_path / "r.html").symlink_to("r.csv")
    assert problems(tmp_path, JOB + '[output]\ntable = "r.csv"\nreport = "r.html"\n') == [
        "output.report: r.html is the release's own file; name another"
    ]


def test_the_job_and_a_database_are_not_overwritten(tmp_path: Path) -> None:
    text = changed('source = "people.csv"', 'source = "sqlite:///people.csv"\nquery = "SELECT 1"')
    assert problems(tmp_path, text + '[output]\ntable = "people.csv"\n') == [
        "output.table: people.csv is the database; it would be overwritten: name another file"
    ]
    (tmp_path / "job.html").symlink_to("job.toml")
    assert problems(tmp_path, JOB + '[output]\nreport = "job.html"\n') == [
        "output.report: job.html is the job file; it would be overwritten: name another file"
    ]


def test_paths_that_no_file_can_have(tmp_path: Path) -> None:
    long = "x" * 5000
    for name in (f"{long}.csv", "a\\u0000b.csv", f"{long}/r.csv"):
        (line,) = problems(tmp_path, JOB + f'[output]\ntable = "{name}"\n')
        assert line.startswith("output.table: ")


def test_a_broken_or_missing_taxonomy_is_told_with_its_own_file(tmp_path: Path) -> None:
    text = changed("job.csv", "broken.csv")
    (tmp_path / "broken.csv").write_text("Welder;Blue;ANY\nNurse;Welder;ANY\nLawyer;White;OTHER\n")
    found = problems(tmp_path, text)
    assert found
    assert all(line.startswith(f"attributes.job.taxonomy: {tmp_path / 'broken.csv'}: ") for line in found)
    assert any("line 3" in line for line in found)
    (line,) = problems(tmp_path, changed("job.csv", "jobs.csv"))
    assert line.startswith(f"attributes.job.taxonomy: {tmp_path / 'jobs.csv'}: ")
    assert "No such file" in line


def test_all_problems_at_once_those_of_the_shape_too(tmp_path: Path) -> None:
    text = """
[data]
source = "people.csv"
mising = "drop"
[attributes.age]
type = "continous"
min = 5
[attributes.job]
[attributes.city]
max = 3
[roles]
class = "job"
[[privacy]]
model = "k-anonymity"
qid = ["age", "job", "hieght"]
k = 0
[[privacy]]
model = "l-divers"
[algorithm]
name = "k-membre"
[output]
table = "r.txt"
"""
    keys = [line.split(": ")[0] for line in problems(tmp_path, text)]
    assert sorted(keys) == [
        "algorithm.name", "attributes.age.type", "attributes.city.max", "attributes.job", "data.mising", "output.table",
        "privacy[1].k", "privacy[1].qid", "privacy[2].model", "roles.class",
    ]  # fmt: skip


def test_what_only_follows_from_a_broken_key_is_not_told(tmp_path: Path) -> None:
    for text, key in (
        (changed("k = 2", 'k = "2"'), "privacy[1].k"),
        (changed("k = 2", "K = 2"), "privacy[1].K"),
        (changed('taxonomy = "job.csv"', "taxonomy = 3"), "attributes.job.taxonomy"),
        (changed('[attributes.job]\ntaxonomy = "job.csv"', "[attributes]\njob = 3"), "attributes.job"),
        (changed("[[privacy]]", "[privacy]"), "privacy"),
        (changed('source = "people.csv"', "source = 3"), "data.source"),
        (changed('class = "income"', "class = 3") + '[algorithm]\nscore = "info-gain"\n', "roles.class"),
        (
            changed(
                'sensitive = ["disease"]', 'sensitive = "disease"',
                entry('model = "l-diversity"\nqid = ["age", "job"]\nl = 2\n'),
            ),
            "roles.sensitive",
        ),
    ):  # fmt: skip
        (line,) = problems(tmp_path, text)
        assert line.startswith(f"{key}: ")


# --- requirements ---


def test_an_entry_speaks_of_every_sensitive_attribute_or_of_one(tmp_path: Path) -> None:
    text = entry('model = "l-diversity"\nqid = ["age", "job"]\nl = 2\n')
    text = changed('sensitive = ["disease"]', 'sensitive = ["disease", "city"]', text)
    assert plan(tmp_path, text).requirement.parts == (
        LDiversity(["age", "job"], 2, "disease"),
        LDiversity(["age", "job"], 2, "city"),
    )
    narrowed = text.replace("l = 2\n", 'l = 2\nsensitive = "city"\n')
    assert plan(tmp_path, narrowed).requirement.parts == (LDiversity(["age", "job"], 2, "city"),)


@pytest.mark.parametrize("name", ["confidence", "c", "h"])
def test_the_confidence_has_three_names(name: str, tmp_path: Path) -> None:
    text = entry(f'model = "confidence-bounding"\nqid = ["age", "job"]\n{name} = 0.5\nvalues = ["HIV"]\n')
    (part,) = plan(tmp_path, text).requirement.parts
    assert part.parameters() == {"confidence": 0.5, "sensitive": "disease", "values": ["HIV"]}


def test_what_only_an_entry_names_is_published_and_a_kept_provider_last(tmp_path: Path) -> None:
    text = entry('model = "l-diversity"\nqid = ["age", "job"]\nl = 2\nsensitive = "disease"\n')
    text = changed('sensitive = ["disease"]\n', "", text)
    assert plan(tmp_path, text).published == ("income", "disease")
    text = changed('class = "income"', 'class = "income"\nprovider = "hospital"')
    assert plan(tmp_path, text).published == ("income", "disease")
    assert plan(tmp_path, text + "[output]\nkeep_provider = true\n").published == ("income", "disease", "hospital")


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        ("", "auto"),
        ("seed = 3", "auto"),
        ('measure = "loss"\nbudget = 2', "auto"),
        ('name = "auto"\nmeasure = "majority"', "auto"),
        ('score = "certainty"\nsuppression = 0.1\nseed = 3', "tds"),
        ('choose = "widest"', "mondrian"),
        ("purity = 0.5", "cheapest-box"),
    ],
)
def test_without_a_name_the_best_is_taken_unless_a_key_names_a_method(tmp_path: Path, keys: str, name: str) -> None:
    assert plan(tmp_path, f"{JOB}[algorithm]\n{keys}\n").method.settings()["name"] == name


def test_sections_of_other_commands_are_accepted(tmp_path: Path) -> None:
    text = changed('taxonomy = "job.csv"', 'taxonomy = "job.csv"\nmax_generalization = ["ANY"]\nweight = 2.0')
    text += '[parties.bank]\nsource = "b.csv"\nid = "ssn"\nattributes = ["job", "income"]\n'
    assert plan(tmp_path, text).schema()["job"].weight == 2.0


def test_settings_tell_no_password(tmp_path: Path) -> None:
    url = "postgresql://steward:Gehe1m@host/db"
    text = changed('source = "people.csv"', f'source = "{url}"\nquery = "SELECT 1"')
    text += f'[parties.bank]\nsource = "{url}"\nid = "ssn"\n'
    settings = plan(tmp_path, text).settings()
    assert "Gehe1m" not in str(settings)
    assert settings["data"]["source"] == "postgresql database"
    assert settings["parties"]["bank"]["source"] == "postgresql database"
