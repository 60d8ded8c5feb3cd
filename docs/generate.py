"""Write the reference pages that follow from declarations (docs/reference/): methods, requirements, attacks, problems.

`make docs` runs it; a test compares the committed pages with what it makes.
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from masquerade.anonymize import Method, TableMethod
from masquerade.forms import Parameter, parameters_of
from masquerade.methods import (
    DEFAULT,
    CommonKeys,
    askable_methods,
    learning_methods,
    methods_between_parties,
    questions,
    table_methods,
)
from masquerade.privacy import REQUIREMENTS, GroupRequirement, can_wrap, limits_of
from masquerade.protocol import Automatic, LearningMethod, SessionMethod
from masquerade.risk.attacks import ATTACKS
from masquerade.service.wire.problems import PAGE, PROBLEM_TYPES

DOCS = Path(__file__).parent
WIDTH = 120
NOTE = "<!-- Made by docs/generate.py from the declarations in the code: change those, and run `make docs`. -->"
HOLDING = {
    "vertical": "hold [different columns about the same people](../howto/mashup.md)",
    "horizontal": "hold [the same columns about different people](../howto/collaborate.md)",
}
SHARED = {  # keys of several requirements, and what is to be said of each beside its declaration
    "qid": "Every model but `m-privacy` has it.",
    "sensitive": "Where an entry of a job file does without, it holds for each of `roles.sensitive`.",
    "values": "A value that the table does not have is refused: a typing error would bind nothing.",
}


def pages() -> dict[Path, str]:
    """The content of each generated page."""
    reference = DOCS / "reference"
    return {
        reference / "methods.md": _page(_methods()),
        reference / "requirements.md": _page(_requirements()),
        reference / "problems.md": _page(_problems()),
        reference / "attacks.md": _page(_attacks()),
    }


# --- methods ---


def _methods() -> Iterator[str]:
    tables, sessions = table_methods(), methods_between_parties()
    yield "# Methods"
    yield NOTE
    yield _text(
        "What `[algorithm] name` may say in a [job file](job.md) and in a [request](../howto/client.md), and the other "
        "keys of that table. A key of another method is an error that says whose it is."
    )
    models = learning_methods()
    asked = questions()
    rows = ["| `name` | one table | between parties | a model | an answer |", "|---|---|---|---|---|"]
    between = {DEFAULT: f"[yes](#{DEFAULT}-between-parties)"}
    for session in sessions:
        between.setdefault(session.name, f"[yes](#{_anchor(session)})")
    for name in {**tables, **between, **models, **asked}:
        places = [f"[yes](#{name}-on-one-table)" if name in tables else "", between.get(name, "")]
        places.append(f"[yes](#{name}-for-a-model)" if name in models else "")
        places.append(f"[yes](#{name}-for-an-answer)" if name in asked else "")
        rows.append(f"| `{json.dumps(name)}`{' (the default)' * (name == DEFAULT)} | {' | '.join(places)} |")
    yield "\n".join(rows)
    yield "## Keys of every method"
    yield _text("In a job file; a request has none of them.")
    yield _parameters(parameters_of(CommonKeys))
    yield "## Methods on one table"
    for name, method in tables.items():
        yield f"### `{name}` on one table"
        yield from _method(method)
    yield "## Methods between parties"
    yield f"### `{DEFAULT}` between parties"
    yield from _choice()
    for session in sessions:
        yield f"### {_heading(session)}"
        yield from _method(session)
    yield "## Methods for a model"
    yield _text("What `masquerade learn` takes: [how](../howto/learn.md).")
    for name, model in models.items():
        yield f"### `{name}` for a model"
        yield from _learning(model)
    yield "## Methods for an answer"
    yield _text(
        "What a request may ask of parties that only numbers come of, where their policies grant it: "
        "[how](../howto/keys.md#through-a-coordinator)."
    )
    for name, question in asked.items():
        yield f"### `{name}` for an answer"
        yield from _method(question)


def _learning(method: type[LearningMethod]) -> Iterator[str]:
    """A method that learns a model: what it needs, whom it is for, its keys."""
    yield _text(_sentence(method.summary))
    yield from map(_text, _paragraphs(method))
    needed = [f"`roles.{role}`" for role, needs in method.roles.items() if needs]
    takes = {
        "values": "categories; numbers by a taxonomy of intervals, or flat",
        "numbers": "numbers and dates; of categories each value but the first becomes a number, 0 or 1",
    }
    facts = {
        "For parties that": " or ".join(HOLDING[each] for each in method.arrangements),
        "Needs": " and ".join(needed) or "no role",
        "Takes": takes[method.takes],
    }
    yield _facts(facts)
    yield "Keys:"
    yield _parameters(parameters_of(method))


def _choice() -> Iterator[str]:
    """What happens where nobody names a method."""
    choice = askable_methods("vertical")[DEFAULT]
    assert issubclass(choice, Automatic)
    yield _text(_sentence(choice.summary))
    yield _text(
        "Of parties with different columns, in this order; [how](../howto/compare.md#between-parties). Providers of "
        "the same columns have one method."
    )
    rows = ["| method | why |", "|---|---|"]
    for each in choice().candidates:
        written = "".join(f", `{key} = {json.dumps(value)}`" for key, value in each.preference.settings.items())
        rows.append(f"| `{json.dumps(each.method.name)}`{written} | {each.preference.because} |")
    yield "\n".join(rows)
    yield "It has no keys of its own."


def _heading(session: type[SessionMethod]) -> str:
    """Where two methods go by one name, what the parties hold tells them apart."""
    others = [each for each in methods_between_parties() if each.name == session.name]
    held = {"vertical": ", different columns", "horizontal": ", the same columns"}[session.arrangement]
    return f"`{session.name}` between parties{held if len(others) > 1 else ''}"


def _anchor(session: type[SessionMethod]) -> str:
    return _heading(session).replace("`", "").replace(",", "").replace(" ", "-")


def _method(method: type[Method]) -> Iterator[str]:
    yield _text(_sentence(method.summary))
    yield from map(_text, _paragraphs(method))
    facts: dict[str, str] = {}
    for short, fixed in method.short_names.items():
        written = ", ".join(f"`{key} = {json.dumps(value)}`" for key, value in fixed.items())
        facts["Short name"] = f"`{json.dumps(short)}`, for {written}"
    if issubclass(method, SessionMethod):
        facts["For parties that"] = HOLDING[method.arrangement]
        facts["A party's part"] = _doc(method.party)
        facts["The assembler's part"] = _doc(method.assembler)
        facts["Shows"] = f"{_doc(method.disclosure).rstrip('.')} ([what each role learns](../leakage.md))"
        if method.resumes:
            facts["After a break"] = "goes on from the parties' notes"
    elif issubclass(method, TableMethod) and method.answers_queries:
        facts["Reports"] = "the error of random queries, too"
    if issubclass(method, TableMethod) and not method.needs_whole_table:
        facts["Larger than memory"] = "[runs on chunks](../howto/large-tables.md) of a table"
    base = SessionMethod if issubclass(method, SessionMethod) else TableMethod
    declines, usual = (getattr(each, "refusals") for each in (method, base))  # noqa: B009 # of either base
    facts["Refuses"] = _doc(declines) if declines is not usual else "nothing of its own"
    yield _facts(facts)
    if declared := parameters_of(method):
        yield "Keys:"
        yield _parameters(declared)
    else:
        yield "It has no keys of its own."
    yield from _seen_in(f'name = "{method.name}"')


# --- attacks ---


def _attacks() -> Iterator[str]:
    yield "# Attacks"
    yield NOTE
    yield _text(
        "What `masquerade attack` plays, and `evaluate` and the report of a release tell: each gives a "
        "figure (`value`), what it means in one sentence (`meaning`), and the most exposed records (`records`). "
        "[How to play them](../howto/attack.md)."
    )
    needed = {
        "sensitive": "a sensitive attribute in the release",
        "learnable": "a sensitive attribute or a class in the release",
        "outside": "an outside table",
        "earlier": "an earlier release",
        "provider": "the column of the providers in the release",
    }
    for attack in ATTACKS:
        yield f"## `{attack.name}`"
        yield _text(inspect.getdoc(attack.run) or "")
        needs = " and ".join(needed[each] for each in attack.needs)
        yield _facts({"Value": attack.summary, "Needs": needs or "the release alone"})


# --- requirements ---


def _requirements() -> Iterator[str]:
    yield "# Requirements"
    yield NOTE
    yield _text(
        "What `[[privacy]] model` may say in a [job file](job.md), in a [request](../howto/client.md) and in a "
        "[policy](../howto/policy.md), with the keys of each. [Choose a requirement](../howto/requirements.md) says "
        "which one to take. In Python each is a class of the same parameters."
    )
    yield "## Where each can be used"
    columns = ("collusion", "remote", "shares", "suppression")
    rows = [f"| model | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name, model in REQUIREMENTS.plain.items():
        cells = ["yes" if can else "" for can in _abilities(model)]
        rows.append(f"| [`{name}`](#{name}) | {' | '.join(cells)} |")
    yield "\n".join(rows)
    yield _facts(
        {
            "collusion": "m-privacy can wrap it, against colluding providers",
            "remote": "parties of a vertical session can check it when another party holds the sensitive attribute",
            "shares": "providers can check it without a third party, from shared counts",
            "suppression": "`tds` can leave rows out for it",
        }
    )
    yield "## Keys that several have"
    shared = {each.name: each for model in REQUIREMENTS.values() for each in parameters_of(model)}
    yield "\n".join(_item(f"{_parameter(shared[name])} {note}") for name, note in SHARED.items())
    for name, model in REQUIREMENTS.items():
        yield f"## `{name}`"
        yield _text(_sentence(model.promise))
        yield _facts({"Reports": model.figure_meaning, "In Python": _python(model)})
        declared = parameters_of(model)
        others = [f"`{each.name}`" for each in declared if each.name in SHARED]
        yield f"Keys{f', beside {_listed(others)}' if others else ''}:"
        stricter = {key: f" A {each.stricter} one is stricter." for key, each in limits_of(model).items()}
        yield "\n".join(
            _item(_parameter(each) + stricter.get(each.name, "")) for each in declared if each.name not in SHARED
        )


def _abilities(model: type[GroupRequirement]) -> tuple[bool, ...]:
    looks_at_values = any(each.name == "sensitive" for each in parameters_of(model))
    return (
        can_wrap(model),
        not looks_at_values or model.declares("circuit"),
        model.declares("thresholds"),
        model.hereditary,
    )


def _python(model: type[GroupRequirement]) -> str:
    import masquerade

    name = model.__name__ if model.__name__ in masquerade.__all__ else "MPrivacy"
    return f"`mq.{name}`"


# --- problem types of the API ---


def _problems() -> Iterator[str]:
    yield "# Problem types"
    yield NOTE
    yield _text(
        "Every error of the [HTTP API](api.md) is a problem document (RFC 9457), and its `type` says of which kind it "
        f"is: `{PROBLEM_TYPES[0].address}`, for one. A coordinator explains the kinds at that address, too "
        f"(`{PAGE}`, without a token). `detail` and `problems` say what is wrong in this very case. A program that "
        f"decides by the kind compares the whole `type`: a status may have several."
    )
    rows = ["| `type` ends in | status | title |", "|---|---|---|"]
    rows += [f"| [`#{each.name}`](#{each.name}) | {each.status} | {each.title} |" for each in PROBLEM_TYPES]
    yield "\n".join(rows)
    for each in PROBLEM_TYPES:
        yield f"## `{each.name}`"
        yield _text(f"Status {each.status}. {each.meaning}")
        yield _text(f"**What to do**: {each.remedy}")


# --- parts of all ---


def _parameters(declared: Iterable[Parameter]) -> str:
    return "\n".join(_item(_parameter(each)) for each in declared)


def _parameter(declared: Parameter) -> str:
    """Its default, what it does, what it must be."""
    default = "" if declared.required or declared.default is None else f" = `{json.dumps(declared.default)}`"
    words = [f"{declared.help.rstrip('.')}. Must be {declared.rule.words}."]
    if declared.aliases:
        words.append(f"Also written {' or '.join(f'`{alias}`' for alias in declared.aliases)}.")
    if declared.granted:
        granted = _listed([f"`{json.dumps(word)}`" for word in declared.granted])
        words.append(f"A policy that says nothing allows {granted} alone.")
    return f"`{declared.name}`{default}: {' '.join(words)}"


def _listed(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def _facts(facts: Mapping[str, str]) -> str:
    return "\n".join(_item(f"**{name}**: {text.rstrip('.')}.") for name, text in facts.items())


def _seen_in(text: str) -> Iterator[str]:
    """The how-to pages whose examples use it."""
    found = []
    for page in sorted((DOCS / "howto").glob("*.md")):
        content = page.read_text("utf-8")
        if any(text in block for block in re.findall("```toml[^\n]*\n(.*?)```", content, re.DOTALL)):
            title = content.splitlines()[0].removeprefix("# ")
            found.append(f"[{title}](../howto/{page.name})")
    if found:
        yield _text(f"Examples: {', '.join(found)}.")


def _paragraphs(declared: type) -> Iterator[str]:
    """The docstring's paragraphs, without its line breaks."""
    for paragraph in (inspect.getdoc(declared) or "").split("\n\n"):
        yield " ".join(paragraph.split())


def _doc(function: object) -> str:
    """The first paragraph of a docstring, as it goes on after a colon."""
    text = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    return text[:1].lower() + text[1:]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _text(text: str) -> str:
    return _wrapped(text, "", "")


def _item(text: str) -> str:
    return _wrapped(text, "- ", "  ")


def _wrapped(text: str, first: str, rest: str) -> str:
    """Text of at most `WIDTH` signs a line, of which none begins as an item of a list would ("0. ")."""
    kept = re.sub(r" (?=\d+\. )", "\0", text)
    filled = textwrap.fill(
        kept, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
    return filled.replace("\0", " ")


def _page(parts: Iterable[str]) -> str:
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, "utf-8")
