"""docs/architecture.md and its drawings say what is there: rooms, arrows, files, dependencies."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ROOT / "src" / "masquerade"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
DRAWINGS = ("rooms-and-arrows", "processes-and-trust", "session")


def layers() -> list[list[str]]:
    [arrows] = [each for each in PROJECT["tool"]["importlinter"]["contracts"] if each["type"] == "layers"]
    return [[room.removeprefix("masquerade.") for room in layer.split(" | ")] for layer in arrows["layers"]]


def section(heading: str) -> str:
    return PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]


def first_cells(text: str) -> set[str]:
    rows = re.findall(r"^\| (.+?) \|", text, re.MULTILINE)
    return {each.strip("` ") for row in rows for each in row.split(",")}


def drawn(name: str) -> ElementTree.Element:
    return ElementTree.parse(ROOT / "docs" / "images" / f"{name}.svg").getroot()


def test_the_page_has_the_arrows_that_are_enforced() -> None:
    [listed] = re.findall(r"```text\n(.*?)```", section("Arrows"), re.DOTALL)
    assert [layer.split(" | ") for layer in listed.splitlines()] == layers()


def test_the_drawing_has_the_arrows_that_are_enforced() -> None:
    texts = [each for each in drawn("rooms-and-arrows").iter() if "room" in each.get("class", "").split()]
    by_height: dict[str | None, list[str | None]] = {}
    for each in texts:
        by_height.setdefault(each.get("y"), []).append(each.text)
    assert list(by_height.values()) == layers()
    assert list(by_height) == sorted(by_height, key=lambda height: int(height or 0))


def test_every_room_is_described() -> None:
    rooms = {
        f"{path.name}/" if path.is_dir() else path.name
        for path in ROOMS.iterdir()
        if not path.name.startswith("_") and path.name != "py.typed"
    }
    assert first_cells(section("Rooms")) - {"room", "---"} == rooms


def test_every_path_exists() -> None:
    prose = re.sub("```.*?```", "", PAGE, flags=re.DOTALL)
    spans = re.findall("`([^`]+)`", prose)
    paths = [each for each in spans if re.fullmatch(r"[\w.-]+(/[\w.-]+)*(/|\.(py|toml|md|svg))", each)]
    assert len(paths) > 50
    homes = (ROOT, ROOMS)
    assert [each for each in paths if not any((home / each).exists() for home in homes)] == []


def test_every_dependency_has_its_reason() -> None:
    project = PROJECT["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    wanted = [*groups, *PROJECT["dependency-groups"].values()]
    names = {re.match(r"[\w-]+", each)[0].lower() for group in wanted for each in group}  # type: ignore[index] # a name
    told = first_cells((ROOT / "docs" / "dependencies.md").read_text("utf-8")) - {"dependency", "---"}
    assert told == names - {project["name"]}


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_is_shown_and_can_be_read(name: str) -> None:
    """It has words for those who cannot see it, no small print, and nothing from elsewhere."""
    assert f"](images/{name}.svg)" in PAGE
    text = (ROOT / "docs" / "images" / f"{name}.svg").read_text("utf-8")
    assert re.search(r"<title id=.+</title>\s*<desc id=.+</desc>", text)
    assert min(map(int, re.findall(r"font-size: (\d+)px", text))) >= 12
    assert "prefers-color-scheme: dark" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    sheet = drawn(name)
    width, height = float(sheet.get("width", "0")), float(sheet.get("height", "0"))
    for each in sheet.iter("{http://www.w3.org/2000/svg}rect"):
        right = float(each.get("x", "0")) + float(each.get("width", "0"))
        bottom = float(each.get("y", "0")) + float(each.get("height", "0"))
        assert right <= width
        assert bottom <= height
