"""Every command that a page names is one, with its options; every snippet runs; every TOML block can be read.

Pages that are followed as a whole: the tutorial (tests/cli/test_demo.py), the trial (tests/docs/test_trial.py) and
the pages of tests/docs/test_howtos.py, tests/docs/test_services.py and tests/docs/test_settings_pages.py.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer

import masquerade as mq
from docs.walkthrough import DOCS, Block, blocks, commands
from masquerade.cli.app import command_line
from masquerade.service import read_request
from people_job import write_people

ROOT = DOCS.parent
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md"]
SHELL = ("console", "sh", "")

# Pages whose snippets run as they stand, on the tables of `world`.
RUN = ["docs/reference/python.md"]


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def fenced(page: Path, *languages: str) -> list[Block]:
    return [block for block in blocks(page) if block.language in languages]


# --- commands ---


def check(words: list[str]) -> None:
    """That a command exists and has these options; what it is about may be missing, in prose it mostly is."""
    command: Any = typer.main.get_command(command_line())
    while True:
        context = command.make_context("masquerade", list(words), resilient_parsing=True)
        known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
        if not hasattr(command, "resolve_command"):
            given = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
            assert [option for option in given if option not in {*known, "--help"}] == [], words
            return
        if not words or words[0].startswith("-"):
            return
        name, (_, command, words) = words[0], command.resolve_command(context, words)
        assert command is not None, f"there is no command {name}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_of_a_page_is_one(page: Path) -> None:
    lines = [line for block in fenced(page, *SHELL) for line in commands(block)]
    prose = re.sub("```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    lines += [" ".join(span.split()) for span in re.findall("`(masquerade [^`]+)`", prose)]
    for line in lines:
        for found in re.findall(r"(?:^|[(;|&] *)(?:masquerade|mq) +([a-z][^;|&)>]*)", line):
            words = shlex.split(found.replace("[", "").replace("]", ""), comments=True)
            try:
                check(words)
            except Exception as error:
                raise AssertionError(f"{named(page)}: {line}: {error}") from error


def test_a_command_that_there_is_not_is_noticed() -> None:
    check(["party", "serve", "bank.toml"])
    with pytest.raises(AssertionError):
        check(["party", "serve", "bank.toml", "--folder", "x"])
    with pytest.raises(AssertionError, match="there is no command serv"):
        check(["party", "serv", "bank.toml"])


# --- snippets and files ---


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every file that the pages read."""
    folder = tmp_path_factory.mktemp("world")
    write_people(folder, 400)
    people = mq.generate_people(400)
    ages = pa.array([2025 - born.year for born in people["birth_date"].to_pylist()])
    (folder / "adult.csv").write_text(
        "age,job,income\n"
        + "".join(
            f"{age},{job},{'>50K' if age.as_py() > 40 else '<=50K'}\n"
            for age, job in zip(ages, people["job"].to_pylist(), strict=True)
        )
    )
    return folder


@pytest.mark.parametrize("page", RUN)
def test_the_snippets_of_a_page_run(page: str, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world)
    names: dict[str, Any] = {}
    for block in fenced(ROOT / page, "python"):
        exec(compile(block.text, f"{page}: line {block.line}", "exec"), names)


def test_the_snippet_of_the_readme_runs_in_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    [block] = fenced(ROOT / "README.md", "python")
    with pytest.warns(UserWarning, match="Guessed: "):
        exec(compile(block.text, f"README.md: line {block.line}", "exec"), {})
    assert "1000 released" in capsys.readouterr().out
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_snippet_can_be_read_and_names_what_there_is(page: Path) -> None:
    for block in fenced(page, "python"):
        where = f"{named(page)}: line {block.line}"
        tree = compile(block.text.replace("…, ", ""), where, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "mq":
                assert hasattr(mq, node.attr), f"{where}: there is no mq.{node.attr}"
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("masquerade."):
                exec(compile(ast.Module([node], []), where, "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_toml_block_can_be_read(page: Path) -> None:
    for block in fenced(page, "toml"):
        tomllib.loads(block.text)


# --- the HTTP API ---


def test_every_call_of_the_api_page_is_in_its_document() -> None:
    """What `curl` is told to do there, and what the prose calls by method and path."""
    from masquerade.service.api.app import document

    page = DOCS / "reference" / "api.md"
    paths = document()["paths"]
    calls = []
    for block in fenced(page, "sh"):
        for line in commands(block):
            for path in re.findall(r'\$MQ(/[^\s"?]*)', line):
                given = re.search(r"-X ([A-Z]+)", line)
                calls.append((given[1] if given else "POST" if " -d " in line else "GET", path))
    prose = re.sub("```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    calls += re.findall(r"`(GET|POST|PATCH|DELETE)\s+(/[^\s`?]*)", prose)
    assert len(calls) > 20
    for method, path in calls:
        pattern = re.sub(r"\\\$ID|\\\{\w+\\\}", r"\\{\\w+\\}", re.escape(path))
        known = [each for each in paths if re.fullmatch(pattern, each)]
        assert known, path
        assert method.lower() in paths[known[0]], (method, path)


def test_the_request_of_the_api_page_is_one() -> None:
    [example] = fenced(DOCS / "reference" / "api.md", "json")
    assert read_request(json.loads(example.text)).purpose == "research"
