"""`masquerade bench NAME`: rerun an experiment. The experiments are the files of `benchmarks/` in a checkout."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json as json_text
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from masquerade.cli.output import Json, argument, option, print_json
from masquerade.errors import ParameterError, hint


def bench(
    name: Annotated[str | None, argument("NAME", "The experiment.")] = None,
    list_: Annotated[bool, option("--list", "List the experiments.")] = False,
    all_: Annotated[bool, option("--all", "Run all of them.")] = False,
    save: Annotated[
        Path | None, typer.Option("--save", "--out", help="Also write NAME.json and charts into this folder.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="The folder with adult/ and crx/, UCI's files.", exists=True, file_okay=False)
    ] = None,
    paper: Annotated[str | None, option("--paper", "papers: only the experiments of this paper.")] = None,
    quick: Annotated[bool, option("--quick", "papers: smaller settings, in minutes.")] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=N", help="Change a number of the experiment, such as runs=100."),
    ] = None,
    json: Json = False,
) -> None:
    """Rerun an experiment of benchmarks/: figures, each beside its reference in the same run.

    Examples: masquerade bench adult; masquerade bench papers --quick --out papers
    """
    experiments = find_experiments()
    if list_:
        descriptions = {each: describe(path) for each, path in experiments.items()}
        if json:
            print_json(descriptions)
        else:
            for each, description in descriptions.items():
                typer.echo(f"{each:14} {description}")
        return
    if not all_ and name not in experiments:
        wanted = f'no experiment "{name}"{hint(name, experiments)}' if name else "name an experiment"
        raise ParameterError(f"bench: {wanted}; there are {', '.join(experiments)}; --all runs them all")
    options = {key: value for key, value in (("paper", paper), ("quick", quick)) if value}
    figures = {
        each: run(each, experiments[each], save, set_ or [], data=data, options=options)
        for each in (experiments if all_ else [name])
        if each is not None
    }
    if json:
        print_json(figures if all_ else figures[str(name)])


def find_experiments() -> dict[str, Path]:
    """The experiments by name, from the checkout that this package runs from, or from the working folder."""
    for root in (Path(__file__).resolve().parents[3], Path.cwd()):
        folder = root / "benchmarks"
        found = {path.stem: path for path in sorted(folder.glob("*.py")) if not path.stem.startswith("_")}
        if found:
            return found
    raise ParameterError("bench: no benchmarks/ here; the experiments come with a checkout of the sources, not a wheel")


def describe(path: Path) -> str:
    """The first line of an experiment's docstring."""
    return path.read_text(encoding="utf-8").lstrip('"').partition("\n")[0].rstrip('"')


def run(
    name: str,
    path: Path,
    save: Path | None,
    changes: Sequence[str] = (),
    *,
    data: Path | None = None,
    constants: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run one experiment: its `run(say, save)` prints figures as it goes and returns them.

    `data` is where UCI's files are, `constants` replace constants of its file, and `options` are what its `run` takes
    beyond the usual.
    """
    experiment = _load(name, path)
    if data is not None:
        importlib.import_module("_data").use(data)
    for key, value in (constants or {}).items():
        setattr(experiment, key, value)
    for change in changes:
        _set(experiment, name, change)
    taken = inspect.signature(experiment.run).parameters
    for each in options or {}:
        if each not in taken:
            raise ParameterError(f"bench: {name} has no --{each}; papers has")
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)

    def say(line: str) -> None:
        typer.echo(line, err=True)

    say(f"== {name}: {describe(path)}")
    figures: dict[str, Any] = experiment.run(say, save, **(options or {}))
    if save is not None:
        text = json_text.dumps(figures, indent=2, ensure_ascii=False)
        (save / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    return figures


def _set(experiment: ModuleType, name: str, change: str) -> None:
    """Change one of the experiment's own whole numbers, which are constants of its file."""
    numbers = [key.lower() for key, value in vars(experiment).items() if key.isupper() and type(value) is int]
    key, _, value = change.partition("=")
    if key not in numbers or not value.isdecimal():
        allowed = ", ".join(f"{each}=N" for each in numbers) or "nothing"
        raise ParameterError(f"bench: --set {change}: {name} lets you set {allowed}")
    setattr(experiment, key.upper(), int(value))


def _load(name: str, path: Path) -> ModuleType:
    if str(path.parent) not in sys.path:
        # experiments share benchmarks/_*.py; last, so that they hide nobody else's modules
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(f"benchmarks.{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as missing:
        raise ParameterError(
            f"bench: {name} needs {missing.name}; the experiments run in the development environment, which "
            "`make bench` sets up"
        ) from None
    return module
