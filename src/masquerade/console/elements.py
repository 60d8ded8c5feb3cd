"""Plain HTML on a NiceGUI page: native browser controls, each with its own label.

Texts and attributes are set as values and never parsed as HTML, so text that others wrote stays text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from markupsafe import Markup
from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

Say = Callable[[str], Any]

_TYPED = "(event) => emit(event.target.value)"
_TICKED = "(event) => emit(event.target.checked)"
_PRESSED = "() => emit()"
_PRESSED_SURELY = "(event) => { if (confirm(event.currentTarget.dataset.sure)) emit(); }"
_COPY = """(event) => {
  const pressed = event.currentTarget;
  navigator.clipboard.writeText(pressed.dataset.text).then(() => {
    pressed.textContent = "Copied";
    setTimeout(() => { pressed.textContent = "Copy"; }, 2000);
  });
}"""


def tag(kind: str, /, text: str | None = None, look: str = "", **attributes: Any) -> TextElement:
    """Create an element. `aria_label` becomes aria-label, `for_` becomes for; None and False omit an attribute."""
    made = TextElement(tag=kind, text=text or "")
    if look:
        made.classes(look)
    for key, value in attributes.items():
        if value is not None and value is not False:
            made.props[key.rstrip("_").replace("_", "-")] = value
    return made


def link(text: str, to: str, look: str = "", **attributes: Any) -> TextElement:
    """Create a link; `to` must be our own, not a user's."""
    return tag("a", text, look, href=to, **attributes)


def button(text: str, pressed: Callable[[], Any], look: str = "", *, sure: str = "", **attributes: Any) -> TextElement:
    """Create a button that ignores presses while its action is still running; `sure` is asked before it acts."""
    made = tag("button", text, look, type="button", data_sure=sure or None, **attributes)
    made.on("click", _one_at_a_time(pressed), js_handler=_PRESSED_SURELY if sure else _PRESSED)
    return made


def copied(text: str, shown: str, what: str) -> None:
    """Draw a long text by its beginning, with a button that copies all of it; `what` names it."""
    with tag("span", look="copied"):
        tag("code", shown, title=text)
        press = tag("button", "Copy", "plain", type="button", aria_label=f"Copy {what}", data_text=text)
    press.on("click", js_handler=_COPY)


def _one_at_a_time(pressed: Callable[[], Any]) -> Callable[[object], Awaitable[None]]:
    under_way = False

    async def press(_event: object) -> None:
        nonlocal under_way
        if under_way:
            return
        under_way = True
        try:
            doing = pressed()
            if isinstance(doing, Awaitable):
                await doing
        finally:
            under_way = False

    return press


def text_field(
    label: str, value: str, typed: Say, *, hint: str = "", kind: str = "text", **attributes: Any
) -> TextElement:
    """Create a labelled text field; `typed` is called with the text at every change."""
    with tag("div", look="field"):
        name = tag("label", label)
        # As an attribute, so that redrawing the page does not overwrite what the user is typing.
        made = tag("input", type=kind, **attributes)
        made.props["^value"] = value
        _joined(name, made, hint)
    made.on("input", lambda event: typed(_text(event.args)), js_handler=_TYPED)
    return made


def choice(
    label: str, options: Mapping[str, str], value: str, chosen: Say, *, hint: str = "", **attributes: Any
) -> TextElement:
    """Create a labelled drop-down list; `options` maps values to their names."""
    with tag("div", look="field"):
        name = tag("label", label)
        with tag("select", **attributes) as made:
            for key, text in options.items():
                marked: dict[str, Any] = {"^value": key, "^selected": "" if key == value else None}
                tag("option", text, **marked)
        _joined(name, made, hint)

    def take(given: object) -> object:
        return chosen(given) if isinstance(given, str) and given in options else None

    made.on("change", lambda event: take(event.args), js_handler=_TYPED)
    return made


def tick(label: str, value: bool, ticked: Callable[[bool], Any], *, note: str = "", **attributes: Any) -> TextElement:
    """Create a labelled checkbox."""
    with tag("div", look="tick"):
        made = tag("input", type="checkbox", **attributes)
        if value:
            made.props["^checked"] = ""
        with tag("div"):
            tag("label", label, for_=made.html_id)
            if note:
                made.props["aria-describedby"] = tag("span", note, "quiet small").html_id
    made.on("change", lambda event: ticked(event.args is True), js_handler=_TICKED)
    return made


def radios(legend: str, options: Mapping[str, tuple[str, str]], value: str, chosen: Say, look: str = "") -> TextElement:
    """Create a group of radio buttons, each with a name and a sentence about it."""
    with tag("fieldset", look=look) as group:
        tag("legend", legend)
        for key, (name, sentence) in options.items():
            with tag("div", look="tick"):
                made = tag("input", type="radio", name=group.html_id)
                made.props["^value"] = key
                if key == value:
                    made.props["^checked"] = ""
                with tag("div"):
                    tag("label", name, for_=made.html_id)
                    made.props["aria-describedby"] = tag("span", sentence, "quiet small").html_id
            # Each needs its own handler: the browser sends no event for the button it unticks.
            made.on("change", lambda _event, key=key: chosen(key), js_handler=_PRESSED)
    return group


def table(
    caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Iterable[int] = ()
) -> Element:
    """Draw a table whose cells are texts, or functions that draw into their cell. On a phone each row is a block."""
    right = set(numbers)
    with tag("div", look="scroll"), tag("table", look="stack") as made:
        tag("caption", caption, "sr")
        with tag("thead"), tag("tr"):
            for position, column in enumerate(columns):
                tag("th", column, "num" if position in right else "", scope="col")
        with tag("tbody"):
            for row in rows:
                with tag("tr"):
                    for position, cell in enumerate(row):
                        _cell(columns[position], cell, position == 0, position in right)
    return made


def _cell(column: str, cell: object, first: bool, right: bool) -> None:
    kind, scope = ("th", "row") if first else ("td", None)
    text = None if callable(cell) else str(cell)
    with tag(kind, text, "num" if right else "", scope=scope, data_name=column):
        if callable(cell):
            cell()


def facts(pairs: Iterable[tuple[str, object]], look: str = "facts") -> None:
    """Draw a description list of names and values; a value that is a function draws itself."""
    with tag("dl", look=look):
        for name, value in pairs:
            with tag("div"):
                tag("dt", name)
                with tag("dd", None if callable(value) else str(value)):
                    if callable(value):
                        value()


def bullets(lines: Iterable[str], look: str = "") -> None:
    """Draw a bulleted list."""
    with tag("ul", look=look):
        for line in lines:
            tag("li", line)


def drawing(svg: Markup) -> None:
    """Draw one of our own charts, which has already escaped its texts."""
    # A wide tree can be scrolled with the keyboard as well.
    box = ui.html(svg, sanitize=False).classes("scroll")
    box.props["tabindex"], box.props["role"], box.props["aria-label"] = "0", "group", "drawing"


def folded(summary: str, draw: Callable[[], None]) -> None:
    """Draw a section that unfolds when its summary is pressed."""
    with tag("details"):
        tag("summary", summary)
        draw()


def focus(control: Element) -> None:
    """Move the keyboard focus to a control once it is drawn."""
    # Via the control's own client: the element that was pressed may be gone by now.
    script = f"requestAnimationFrame(() => document.getElementById('{control.html_id}')?.focus())"
    control.client.run_javascript(script)


class Region:
    """A part of a page that is redrawn only when its content changes, so that input in it is not disturbed."""

    def __init__(self) -> None:
        self.element = tag("div")
        self._shown: object = self  # nothing yet

    def show(self, what: object, draw: Callable[[], object]) -> None:
        """Call `draw` unless `what` is shown already; it may depend only on `what` and its own controls' state."""
        if what == self._shown:
            return
        self._shown = what
        self.element.clear()
        with self.element:
            draw()


class Ticks:
    """Checkboxes by name. Adding or removing one leaves the others, and their ticks, untouched."""

    def __init__(self) -> None:
        self._row = tag("div", look="ticks")
        self._boxes: dict[str, Element] = {}

    def show(self, names: Sequence[str], ticked: Container[str], choose: Callable[[str, bool], Any]) -> None:
        """Show checkboxes of these names, in this order; `choose` is called with a name and whether it is ticked."""
        for name in [each for each in self._boxes if each not in names]:
            self._boxes.pop(name).delete()
        for position, name in enumerate(names):
            if name not in self._boxes:
                with self._row:
                    box = field_of(tick(name, name in ticked, partial(choose, name)))
                box.move(target_index=position)
                self._boxes[name] = box


def field_of(control: Element) -> Element:
    """Return the element that holds a control with its label and hint."""
    slot = control.parent_slot
    return slot.parent if slot is not None else control


def _joined(name: Element, control: Element, hint: str) -> None:
    name.props["for"] = control.html_id
    if hint:
        told = tag("p", hint, "hint")
        control.props["aria-describedby"] = told.html_id


def _text(given: object) -> str:
    return given if isinstance(given, str) else ""
