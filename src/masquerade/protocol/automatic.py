"""A method between parties that nobody named: chosen from what is agreed, before any party computes anything.

Methods declare in which settings they offer themselves, and how far in front (`SessionMethod.preferences`). The first
that takes the requirements is it. Nobody's records are looked at, so the choice shows nothing about them, and no party
sees the course of a release that is not made. What is written into the contract is the method's own name, with why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from masquerade.errors import ParameterError, Problem
from masquerade.forms.declared import parameters_of, without_floats
from masquerade.privacy.requirement import GroupRequirement
from masquerade.protocol.method import Agreed, AskedMethod, Preference, Proposal, SessionMethod
from masquerade.protocol.method_choice import MethodChoice, PassedOver

Written = Mapping[str, Any]  # a method with its parameters, as a contract has it


@dataclass(frozen=True)
class Candidate:
    """A method with the settings of one of its preferences."""

    method: SessionMethod
    preference: Preference

    @property
    def written(self) -> dict[str, Any]:
        """The method as a contract has it, before it is fitted to requirements."""
        return without_floats(self.method.settings())


@dataclass(frozen=True)
class Automatic(AskedMethod):
    """The first of several methods that takes the requirements, in the order that they declare."""

    name: ClassVar[str] = "auto"
    summary: ClassVar[str] = (
        "takes the first of the parties' methods, in the order of what their releases are worth, that takes the "
        "requirements; which one is agreed in the contract, before anything is computed"
    )

    among: tuple[Written, ...] | None = None  # the candidates left, as `Candidate.written`; None: all

    @classmethod
    def methods(cls) -> Iterable[type[SessionMethod]]:
        """Return the methods to choose from; a registry's affair."""
        raise NotImplementedError

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The methods in their settings, the preferred ones first."""
        found = [
            Candidate(method(**self._passed_on(method), **each.settings), each)
            for method in self.methods()
            for each in method.preferences
        ]
        found.sort(key=lambda each: each.preference.rank)
        return tuple(each for each in found if self.among is None or each.written in self.among)

    def _passed_on(self, method: type[SessionMethod]) -> dict[str, Any]:
        """Return the parameters of the choice that the method has, too."""
        own = {each.name for each in parameters_of(method)}
        return {each.name: getattr(self, each.name) for each in parameters_of(type(self)) if each.name in own}

    def as_agreed(self, written: Written) -> Self:
        """Return the choice with its own parameters as in a method that was agreed."""
        own = {each.name: written[each.name] for each in parameters_of(type(self)) if each.name in written}
        return replace(self, **own)

    @property
    def possible(self) -> tuple[SessionMethod, ...]:
        """The candidates' methods."""
        return tuple(each.method for each in self.candidates)

    def restricted(self, permits: Callable[[SessionMethod], bool]) -> Self:
        """Return the choice among those candidates that are permitted; there may be none."""
        return replace(self, among=tuple(each.written for each in self.candidates if permits(each.method)))

    def off_engine(self, parts: Sequence[GroupRequirement]) -> str | None:
        """What is chosen is known too late."""
        return "a method that is chosen may count in each party's own memory; tds and mondrian count on an engine"

    def agreed(self, proposal: Proposal, class_name: str | None) -> Agreed:
        """Return the first candidate that takes the proposal; where none does, the last one."""
        passed: list[PassedOver] = []
        last: Agreed | None = None
        for each in self.candidates:
            try:
                made = each.method.fitted(proposal.parts, proposal.m, class_name)
            except ParameterError:  # settings for another session: there is no class, for one
                continue
            last = Agreed(made, MethodChoice(each.preference.because, tuple(passed)))
            against = tuple(dict.fromkeys(problem.sentence for problem in made.refusals(proposal)))
            if not against:
                return last
            passed.append(PassedOver(each.written, against))
        if last is None:
            raise ParameterError(Problem("no method is left to choose from; name one", key=("name",)))
        return last

    def refusals(self, proposal: Proposal) -> Iterator[Problem]:
        """What the last candidate refuses, if all refuse something."""
        problems: list[Problem] = []
        for each in self.possible:
            problems = [*each.refusals(proposal)]
            if not problems:
                return
        yield from problems
