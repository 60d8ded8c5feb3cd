"""The state of a session as its events show it: counter-offers, pending approvals, progress, the taxonomies' cuts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from masquerade.report import TreeNode
from masquerade.service import QUALITY_TERMS, Event, Status, said_of, said_of_losses

MOST_ROWS = 40  # in a drawn tree
MOST_LINES = 200  # in the log

STEPS = (
    Status.REQUESTED,
    Status.NEGOTIATING,
    Status.AGREED,
    Status.QUEUED,
    Status.RUNNING,
    Status.ASSEMBLING,
    Status.PUBLISHED,
)

_SHOWN_IN: Mapping[str, set[str]] = {
    "status": {"status", "offers", "progress", "steps"},
    "offer": {"offers"},
    "counter": {"offers"},
    "approval": {"status"},
    "contract": {"status", "offers"},
    "quality": {"status"},
}


@dataclass
class SessionProgress:
    """What the page shows of a session's events, which are taken in order."""

    last: int = 0
    counters: dict[int, Mapping[str, Any]] = field(default_factory=dict)  # by round
    approvals: list[str] = field(default_factory=list)
    by_party: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    steps: dict[str, list[tuple[str, tuple[str, ...]]]] = field(default_factory=dict)  # by attribute
    holders: dict[str, str] = field(default_factory=dict)  # party by attribute
    quality: Mapping[str, Any] | None = None
    reached: list[Status] = field(default_factory=list)
    lines: list[tuple[Any, str]] = field(default_factory=list)  # time and text

    def take(self, events: Iterable[Event]) -> set[str]:
        """Process events; return the names of the page parts to redraw."""
        changed: set[str] = set()
        for event in events:
            self.last = max(self.last, event.number)
            changed |= self._take(event)
        return changed

    def _take(self, event: Event) -> set[str]:
        data = event.data
        if event.kind == "progress":
            self.by_party |= {str(party): each for party, each in (data.get("parties") or {}).items()}
            return {"progress"}
        if event.kind == "step":
            attribute = str(data.get("attribute"))
            children = tuple(map(str, data.get("children") or ()))
            self.steps.setdefault(attribute, []).append((str(data.get("value")), children))
            self.holders[attribute] = str(data.get("party"))
            return {"steps"}
        words = self._told(event)
        self.lines = [*self.lines, (event.time, words)][-MOST_LINES:]
        return {"lines"} | _SHOWN_IN.get(event.kind, set())

    def _told(self, event: Event) -> str:
        """Record an event for the parts that show it, and return it in words."""
        data = event.data
        match event.kind:
            case "status":
                self._moved(Status(data["to"]))
                self.quality = data.get("missed") or self.quality  # with what the release costs
                cause = f": {data['cause']}" if data.get("cause") else ""
                return f"{str(data['to']).replace('_', ' ')}{cause}"
            case "offer":
                reasons = data.get("reasons") or ()
                said = "refuses" if reasons else "offers"
                return f"{data.get('party')} {said} in round {data.get('round')}"
            case "counter":
                self.counters[int(data.get("round") or 0)] = data
                return f"counter-offer after round {data.get('round')}"
            case "roll_up":
                return "an earlier release of the same tables can be rolled up; the parties are asked for that"
            case "approval":
                if data.get("party") not in self.approvals:
                    self.approvals.append(str(data.get("party")))
                return f"{data.get('party')} waits for a person's approval"
            case "contract":
                self.approvals.clear()
                return "all parties signed the contract"
            case "quality":
                self.quality = data
                return _quality(data)
            case "problem":
                return f"{data.get('party') or 'one of the parties'}: {data.get('text')}"
        return event.kind

    def _moved(self, to: Status) -> None:
        self.reached.append(to)
        if to in (Status.NEGOTIATING, Status.QUEUED):  # a new attempt: the previous one's progress is void
            self.by_party.clear()
            self.steps.clear()
            self.holders.clear()
        if to is Status.NEGOTIATING:
            self.counters.clear()
            self.quality = None


def _quality(told: Mapping[str, Any]) -> str:
    """Describe the figures that were measured, and the limits that were wished."""
    terms = [term for term in QUALITY_TERMS if told.get(term.figure) is not None or told.get(term.key) is not None]
    figures = [said_of(term, told) for term in terms] or ["the quality could not be measured"]
    losses = said_of_losses(told)
    return "; ".join([*figures, *([f"losses: {losses}"] if losses else [])])


def step_tree(steps: Iterable[tuple[str, tuple[str, ...]]]) -> list[TreeNode]:
    """Return the part of a taxonomy that the steps revealed: the root, the split values and the current cut."""
    children = dict(steps)
    inner = {child for each in children.values() for child in each}
    tops = [value for value in children if value not in inner]
    if not tops:
        return []
    nodes: list[TreeNode] = []
    rows = left_out = 0
    waiting = [(tops[0], -1)]
    while waiting:
        value, parent = waiting.pop()
        below = children.pop(value, None)  # draw each value once, whatever a party sends
        if below is None:
            rows += 1
            if rows > MOST_ROWS:
                left_out += 1
                continue
            nodes.append(TreeNode(value, parent, "cut"))
            continue
        if rows >= MOST_ROWS:
            left_out += 1
            continue
        waiting += [(child, len(nodes)) for child in reversed(below)]
        nodes.append(TreeNode(value, parent, "above"))
    if left_out:
        more = "value" if left_out == 1 else "values"
        nodes.append(TreeNode(f"… and {left_out} more {more}", 0, "cut", note=True))
    return nodes
