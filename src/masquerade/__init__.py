"""Masquerade: publish and analyse data together without showing each other the raw data.

    import masquerade as mq
    table = mq.read("adult.csv", taxonomies="taxonomies/")
    algorithm = mq.TopDownSpecialization(target="income")
    release = mq.anonymize(table, mq.KAnonymity(["age", "job"], k=50), algorithm)

Names are imported when they are first used, so that `masquerade --help` answers at once.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inspect import Signature

    from masquerade.anonymize.cheapest_box.method import CheapestBox
    from masquerade.anonymize.datafly import Datafly
    from masquerade.anonymize.k_member import GreedyCka, KMember
    from masquerade.anonymize.mondrian.algorithm import Mondrian
    from masquerade.anonymize.mondrian.providers import ProviderAwareMondrian
    from masquerade.anonymize.tds.method import TopDownSpecialization
    from masquerade.client import AsyncClient, Client
    from masquerade.data.people import generate_people
    from masquerade.data.schema import Attribute, Schema
    from masquerade.data.taxonomy import Branch, Taxonomy
    from masquerade.data.taxonomy_files import read_taxonomy
    from masquerade.errors import (
        AnswerIsNo,
        BadInput,
        Conflict,
        DataError,
        JobError,
        MasqueradeError,
        NoCommonRecords,
        NotAllowed,
        NotFound,
        ParameterError,
        PeerBrokeProtocol,
        PeerError,
        PeerRefused,
        PeerUnreachable,
        RequirementUnreachable,
        RequirementViolated,
        TaxonomyError,
    )
    from masquerade.jobs.attack import attack, attack_job
    from masquerade.jobs.compare import compare
    from masquerade.jobs.draft.drafting import draft
    from masquerade.jobs.evaluate import evaluate
    from masquerade.jobs.guessing import Table
    from masquerade.jobs.joint_keys import JointKeysFound, joint_keys
    from masquerade.jobs.keys import fuzzy_duplicates, keys, mask, ratios
    from masquerade.jobs.learn import Learning, Predictions, learn_job, predict
    from masquerade.jobs.mashup import Mashup, mashup_job
    from masquerade.jobs.one_table import anonymize, read, roll_up
    from masquerade.jobs.release import Release
    from masquerade.jobs.run import anonymize_job, compare_job, evaluate_job, verify_job
    from masquerade.jobs.verifying import Verification, verify
    from masquerade.methods.one_table import Auto
    from masquerade.privacy.check import Verdict
    from masquerade.privacy.combined import AlphaKAnonymity, PSensitiveKAnonymity
    from masquerade.privacy.confidence_bounding import ConfidenceBounding
    from masquerade.privacy.entropy_l_diversity import EntropyLDiversity
    from masquerade.privacy.k_anonymity import ConstrainedKAnonymity, KAnonymity
    from masquerade.privacy.l_diversity import LDiversity
    from masquerade.privacy.m_privacy.group_verdicts import GroupVerdict, verify_m_privacy
    from masquerade.privacy.m_privacy.requirement import MPrivacy
    from masquerade.privacy.recursive_l_diversity import RecursiveLDiversity
    from masquerade.privacy.requirement import Requirement
    from masquerade.privacy.t_closeness import TCloseness
    from masquerade.risk.attack import Finding
    from masquerade.risk.keys import Keys
    from masquerade.risk.masking import Masked
    from masquerade.surface.estimators import (
        BayesNet,
        CoxRegression,
        DecisionTree,
        LogisticRegression,
        PpCox,
        PpSvm,
        SupportVectorMachine,
        load_model,
    )

__version__ = "0.1.0"

_HOME = {
    "anonymize.cheapest_box.method": ["CheapestBox"],
    "anonymize.datafly": ["Datafly"],
    "anonymize.k_member": ["GreedyCka", "KMember"],
    "anonymize.mondrian.algorithm": ["Mondrian"],
    "anonymize.mondrian.providers": ["ProviderAwareMondrian"],
    "anonymize.tds.method": ["TopDownSpecialization"],
    "client": ["AsyncClient", "Client"],
    "data.people": ["generate_people"],
    "data.schema": ["Attribute", "Schema"],
    "data.taxonomy": ["Branch", "Taxonomy"],
    "data.taxonomy_files": ["read_taxonomy"],
    "errors": [
        "AnswerIsNo",
        "BadInput",
        "Conflict",
        "DataError",
        "JobError",
        "JointKeysFound",
        "MasqueradeError",
        "NoCommonRecords",
        "NotAllowed",
        "NotFound",
        "ParameterError",
        "PeerBrokeProtocol",
        "PeerError",
        "PeerRefused",
        "PeerUnreachable",
        "RequirementUnreachable",
        "RequirementViolated",
        "TaxonomyError",
    ],
    "jobs.attack": ["attack", "attack_job"],
    "jobs.compare": ["compare"],
    "jobs.draft.drafting": ["draft"],
    "jobs.evaluate": ["evaluate"],
    "jobs.guessing": ["Table"],
    "jobs.joint_keys": ["JointKeysFound", "joint_keys"],
    "jobs.keys": ["fuzzy_duplicates", "keys", "mask", "ratios"],
    "jobs.learn": ["Learning", "Predictions", "learn_job", "predict"],
    "jobs.mashup": ["Mashup", "mashup_job"],
    "jobs.one_table": ["read", "roll_up"],
    "jobs.release": ["Release"],
    "jobs.run": ["anonymize_job", "compare_job", "evaluate_job", "verify_job"],
    "jobs.verifying": ["Verification", "verify"],
    "methods.one_table": ["Auto"],
    "privacy.check": ["Verdict"],
    "privacy.combined": ["AlphaKAnonymity", "PSensitiveKAnonymity"],
    "privacy.confidence_bounding": ["ConfidenceBounding"],
    "privacy.entropy_l_diversity": ["EntropyLDiversity"],
    "privacy.k_anonymity": ["ConstrainedKAnonymity", "KAnonymity"],
    "privacy.l_diversity": ["LDiversity"],
    "privacy.m_privacy.group_verdicts": ["GroupVerdict", "verify_m_privacy"],
    "privacy.m_privacy.requirement": ["MPrivacy"],
    "privacy.recursive_l_diversity": ["RecursiveLDiversity"],
    "privacy.requirement": ["Requirement"],
    "privacy.t_closeness": ["TCloseness"],
    "risk.attack": ["Finding"],
    "risk.keys": ["Keys"],
    "risk.masking": ["Masked"],
    "surface.estimators": [
        "BayesNet",
        "CoxRegression",
        "DecisionTree",
        "LogisticRegression",
        "PpCox",
        "PpSvm",
        "SupportVectorMachine",
        "load_model",
    ],
}
_MODULE_OF = {name: f"masquerade.{module}" for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'masquerade' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _CallableRoom(ModuleType):
    # `masquerade.anonymize` is a room of the house, and the function of that name: one word, one object.
    # Properties stand before what the package itself has, so help() and editors show the function.

    def __call__(self, *args: Any, **options: Any) -> Any:
        return _anonymize()(*args, **options)

    @property
    def __signature__(self) -> Signature:
        from inspect import signature

        return signature(_anonymize())

    @property
    def __doc__(self) -> str | None:  # type: ignore[override] # of a class it is a text, of this one's instance lazy
        return f"{_anonymize().__doc__}\n    anonymize{self.__signature__}"


def _anonymize() -> Callable[..., Any]:
    function: Callable[..., Any] = import_module("masquerade.jobs.one_table").anonymize
    return function


if not TYPE_CHECKING:
    import_module("masquerade.anonymize").__class__ = _CallableRoom


__all__ = [
    "AlphaKAnonymity",
    "AnswerIsNo",
    "AsyncClient",
    "Attribute",
    "Auto",
    "BadInput",
    "BayesNet",
    "Branch",
    "CheapestBox",
    "Client",
    "ConfidenceBounding",
    "Conflict",
    "ConstrainedKAnonymity",
    "CoxRegression",
    "DataError",
    "Datafly",
    "DecisionTree",
    "EntropyLDiversity",
    "Finding",
    "GreedyCka",
    "GroupVerdict",
    "JobError",
    "JointKeysFound",
    "KAnonymity",
    "KMember",
    "Keys",
    "LDiversity",
    "Learning",
    "LogisticRegression",
    "MPrivacy",
    "Mashup",
    "Masked",
    "MasqueradeError",
    "Mondrian",
    "NoCommonRecords",
    "NotAllowed",
    "NotFound",
    "PSensitiveKAnonymity",
    "ParameterError",
    "PeerBrokeProtocol",
    "PeerError",
    "PeerRefused",
    "PeerUnreachable",
    "PpCox",
    "PpSvm",
    "Predictions",
    "ProviderAwareMondrian",
    "RecursiveLDiversity",
    "Release",
    "Requirement",
    "RequirementUnreachable",
    "RequirementViolated",
    "Schema",
    "SupportVectorMachine",
    "TCloseness",
    "Table",
    "Taxonomy",
    "TaxonomyError",
    "TopDownSpecialization",
    "Verdict",
    "Verification",
    "anonymize",
    "anonymize_job",
    "attack",
    "attack_job",
    "compare",
    "compare_job",
    "draft",
    "evaluate",
    "evaluate_job",
    "fuzzy_duplicates",
    "generate_people",
    "joint_keys",
    "keys",
    "learn_job",
    "load_model",
    "mashup_job",
    "mask",
    "predict",
    "ratios",
    "read",
    "read_taxonomy",
    "roll_up",
    "verify",
    "verify_job",
    "verify_m_privacy",
]
