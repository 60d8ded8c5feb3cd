"""What is wrong with a job for several parties: told with its key, and without what only follows from it."""

from __future__ import annotations

from pathlib import Path

import pytest

import masquerade as mq
from job.job_files import JOB_TAXONOMY, changed
from masquerade.errors import JobError
from masquerade.jobs.parties import contract_of
from masquerade.jobs.party_process import own_table
from masquerade.jobs.plan import Plan

TABLES = {
    "bank.csv": "ssn,age,income\n" + "".join(f"{at},{20 + at},{'NY'[at % 2]}\n" for at in range(8)),
    "clinic.csv": "ssn,job,disease\n"
    + "".join(f"{at},{'Welder' if at % 2 else 'Nurse'},{'Flu' if at % 3 else 'HIV'}\n" for at in range(8)),
    "north.csv": "age,job,disease\n20,Welder,Flu\n",
    "south.csv": "age,job,disease\n30,Nurse,HIV\n",
}
ATTRIBUTES = """
[attributes.age]
type = "continuous"
min = 0
max = 128
[attributes.job]
taxonomy = "job.csv"
[roles]
sensitive = ["disease"]
[[privacy]]
model = "k-anonymity"
qid = ["age", "job"]
k = 2
"""
MASHUP = (
    '[parties.bank]\nsource = "bank.csv"\nid = "ssn"\n[parties.clinic]\nsource = "clinic.csv"\nid = "ssn"\n'
    + ATTRIBUTES
    + '[[privacy]]\nmodel = "confidence-bounding"\nqid = ["age", "job"]\nc = 0.9\nvalues = ["HIV"]\n'
    '[algorithm]\nname = "tds"\n'
)
PROVIDERS = (
    '[parties.north]\nsource = "north.csv"\n[parties.south]\nsource = "south.csv"\n'
    + ATTRIBUTES
    + '[[privacy]]\nmodel = "l-diversity"\nqid = ["age", "job"]\nl = 2\n'
    '[[privacy]]\nmodel = "m-privacy"\nm = 1\n'
    '[algorithm]\nname = "mondrian"\n'
    "[output]\nkeep_provider = true\n"
)
AVAILABLE = "available: auto, tds, dka, mondrian"


def write(folder: Path, text: str) -> Path:
    for name, content in {**TABLES, "job.csv": JOB_TAXONOMY, "job.toml": text}.items():
        (folder / name).write_text(content)
    return folder / "job.toml"


@pytest.mark.parametrize("name", ["tds", "dka", "dka-datafly"])
def test_a_method_of_another_arrangement_is_told_as_that_alone(name: str, tmp_path: Path) -> None:
    """Not that ids are missing, which providers have no use for."""
    text = PROVIDERS.replace('[[privacy]]\nmodel = "m-privacy"\nm = 1\n', "").partition("[output]")[0]
    job = write(tmp_path, text.replace('name = "mondrian"', f'name = "{name}"'))
    with pytest.raises(JobError) as caught:
        mq.mashup_job(job)
    [problem] = caught.value.problems
    assert problem.key == ("algorithm", "name")
    assert "the same columns" in str(problem)
    assert str(problem).endswith(": auto, mondrian")


WRONG = {
    "misspelt name in a mashup": (
        changed('"tds"', '"tsd"', MASHUP),
        f'algorithm.name: no algorithm "tsd" (did you mean "tds"?); {AVAILABLE}',
    ),
    "misspelt name of providers": (
        changed('"mondrian"', '"mondrain"', PROVIDERS),
        'algorithm.name: no algorithm "mondrain" (did you mean "mondrian"?); available: auto, mondrian',
    ),
    "an algorithm for one table": (
        changed('"mondrian"', '"datafly"', PROVIDERS),
        'algorithm.name: "datafly" is for one table; parties have: auto, mondrian',
    ),
    "a number for the name": (
        changed('"mondrian"', "3", PROVIDERS),
        'algorithm.name: must be the name of an algorithm, such as "mondrian"; got 3',
    ),
    "a list for the section": (
        changed("[algorithm]", "[[algorithm]]", PROVIDERS),
        "algorithm: must be a table, written [algorithm]; got a list",
    ),
    "a number for the provider": (
        changed("[roles]", "[roles]\nprovider = 3", PROVIDERS),
        'roles.provider: must be a name, such as "age"; got 3',
    ),
    "keys of providers in a mashup": (
        MASHUP + 'choose = "widest"\nstrict = true\nprovider_aware = false\nthird_party = "secure"\n',
        *(
            f"algorithm.{key}: belongs to mondrian; tds does without it"
            for key in ("choose", "strict", "provider_aware", "third_party")
        ),
    ),
    "a column that its party leaves out": (
        changed('source = "bank.csv"', 'source = "bank.csv"\nattributes = ["income"]', MASHUP).replace(
            "[roles]", '[roles]\nclass = "income"'
        ),
        'attributes.age: no party contributes "age"; bank has it: add it to parties.bank.attributes',
    ),
    "missing cells that providers cannot keep": (
        changed('source = "south.csv"', 'source = "south.csv"\nmissing = "keep"', PROVIDERS),
        'parties.south.missing: "keep" is not possible among providers of the same columns, who agree on all values '
        'before they see any; use "drop" or "error", or write a value of its own into the cells and the taxonomies',
    ),
    "a model that needs all counts": (
        changed("l = 2", "t = 0.3", PROVIDERS).replace("l-diversity", "t-closeness"),
        "privacy[2]: t-closeness cannot be tested where nobody sees all counts; use one of k-anonymity, "
        "l-diversity, recursive-l-diversity, alpha-k-anonymity, confidence-bounding, p-sensitive-k-anonymity, "
        "constrained-k-anonymity, or m = 0, which leaves no "
        'coalition to be found, or third_party = "trusted" with choose = "certainty"',
    ),
    "more colluding providers than there can be": (
        changed("m = 1", f"m = {2**63}", PROVIDERS),
        f"privacy[3].m: must be a whole number of at most 9007199254740991; got {2**63}",
    ),
    "more records than there can be": (
        changed("k = 2", f"k = {10**25}", PROVIDERS),
        f"privacy[1].k: must be a whole number of at most 9007199254740991; got {10**25}",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_told_with_its_key_and_nothing_else_is(tmp_path: Path, name: str) -> None:
    text, *expected = WRONG[name]
    path = write(tmp_path, text)
    with pytest.raises(JobError) as caught:
        mq.mashup_job(path)
    assert [line.removeprefix(f"{path}: ") for line in caught.value.lines] == expected


def test_a_value_that_its_holder_does_not_have_is_told_with_the_key_that_lists_it(tmp_path: Path) -> None:
    path = write(tmp_path, changed('["HIV"]', '["HIVV"]', MASHUP))
    plan = Plan(path)
    contract = contract_of(plan, headers())
    assert contract is not None
    own_table(plan, "bank", contract)  # has no say
    with pytest.raises(JobError) as caught:
        own_table(plan, "clinic", contract)
    assert caught.value.exit_code == 2
    assert caught.value.lines == (
        f'{path}: privacy[2].values: clinic has no record with disease = "HIVV"; '
        "a bound on a value that is nowhere binds nothing",
    )


def headers() -> dict[str, list[str]]:
    return {name: TABLES[f"{name}.csv"].partition("\n")[0].split(",") for name in ("bank", "clinic")}


@pytest.mark.parametrize("columns", ["job,disease", "disease"])
def test_a_party_may_bring_the_sensitive_column_alone(tmp_path: Path, columns: str) -> None:
    path = write(
        tmp_path, MASHUP.replace('"clinic.csv"\nid = "ssn"\n', '"clinic.csv"\nid = "ssn"\nattributes = ["disease"]\n')
    )
    people = "".join(f"{at},{20 + at},Welder,{'NY'[at % 2]}\n" for at in range(8))
    (tmp_path / "bank.csv").write_text("ssn,age,job,income\n" + people)
    rows = "".join(f"{at}{',Nurse' if 'job' in columns else ''},{'Flu' if at % 3 else 'HIV'}\n" for at in range(8))
    (tmp_path / "clinic.csv").write_text(f"ssn,{columns}\n{rows}")
    plan = Plan(path)
    contract = contract_of(plan, {"bank": ("ssn", "age", "job", "income"), "clinic": ("ssn", *columns.split(","))})
    assert contract is not None
    table, left_out = own_table(plan, "clinic", contract)
    assert contract.columns_needed("clinic") == ("disease",)
    assert len(table) == 8
    assert left_out == (("ssn", "job") if "job" in columns else ("ssn",))
