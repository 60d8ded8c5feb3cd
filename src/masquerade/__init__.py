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

    from masquerade.anonymize.cheapest_box.algorithm import CheapestBox
    from masquerade.anonymize.datafly import Datafly
    from masquerade.anonymize.k_member.algorithm import GreedyCka, KMember
    from masquerade.anonymize.mondrian.algorithm import Mondrian
    from masquerade.anonymize.mondrian.provider_aware import ProviderAwareMondrian
    from masquerade.anonymize.tds import TopDownSpecialization
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
    from masquerade.library.attacking import attack, attack_job
    from masquerade.library.client import AsyncClient, Client
    from masquerade.library.comparing import compare
    from masquerade.library.drafting import draft
    from masquerade.library.estimators import (
        BayesNet,
        DecisionTree,
        LogisticRegression,
        PpSvm,
        SupportVectorMachine,
        load_model,
    )
    from masquerade.library.evaluation import evaluate
    from masquerade.library.guessing import Table
    from masquerade.library.jobs import anonymize_job, compare_job, evaluate_job, verify_job
    from masquerade.library.joint_keys import JointKeysFound, joint_keys
    from masquerade.library.keys_and_masks import fuzzy_duplicates, keys, mask, ratios
    from masquerade.library.learning import Learning, learn_job
    from masquerade.library.mashup import Mashup, mashup_job
    from masquerade.library.predicting import Predictions, predict
    from masquerade.library.python_api import anonymize, read, roll_up
    from masquerade.library.release import Release
    from masquerade.library.survival_estimator import CoxRegression, PpCox
    from masquerade.library.verifying import Verification, verify
    from masquerade.methods.automatic import Auto
    from masquerade.privacy.alpha_k_anonymity import AlphaKAnonymity
    from masquerade.privacy.check import Verdict
    from masquerade.privacy.confidence_bounding import ConfidenceBounding
    from masquerade.privacy.constrained_k_anonymity import ConstrainedKAnonymity
    from masquerade.privacy.entropy_l_diversity import EntropyLDiversity
    from masquerade.privacy.k_anonymity import KAnonymity
    from masquerade.privacy.l_diversity import LDiversity
    from masquerade.privacy.m_privacy.group_verdicts import GroupVerdict, verify_m_privacy
    from masquerade.privacy.m_privacy.requirement import MPrivacy
    from masquerade.privacy.p_sensitive_k_anonymity import PSensitiveKAnonymity
    from masquerade.privacy.recursive_l_diversity import RecursiveLDiversity
    from masquerade.privacy.requirement import Requirement
    from masquerade.privacy.t_closeness import TCloseness
    from masquerade.risk.attacks.attack import Finding
    from masquerade.risk.finding import Keys
    from masquerade.risk.publishing import Masked

__version__ = "0.1.0"

_HOME = {
    "anonymize.datafly": ["Datafly"],
    "anonymize.cheapest_box.algorithm": ["CheapestBox"],
    "anonymize.k_member.algorithm": ["GreedyCka", "KMember"],
    "anonymize.mondrian.algorithm": ["Mondrian"],
    "anonymize.mondrian.provider_aware": ["ProviderAwareMondrian"],
    "anonymize.tds": ["TopDownSpecialization"],
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
    "library.attacking": ["attack", "attack_job"],
    "library.client": ["AsyncClient", "Client"],
    "library.drafting": ["draft"],
    "library.estimators": [
        "BayesNet",
        "DecisionTree",
        "LogisticRegression",
        "PpSvm",
        "SupportVectorMachine",
        "load_model",
    ],
    "library.evaluation": ["evaluate"],
    "library.guessing": ["Table"],
    "library.predicting": ["Predictions", "predict"],
    "library.survival_estimator": ["CoxRegression", "PpCox"],
    "library.python_api": ["read", "roll_up"],
    "library.release": ["Release"],
    "library.verifying": ["Verification", "verify"],
    "library.comparing": ["compare"],
    "library.jobs": ["anonymize_job", "compare_job", "evaluate_job", "verify_job"],
    "library.joint_keys": ["JointKeysFound", "joint_keys"],
    "library.keys_and_masks": ["fuzzy_duplicates", "keys", "mask", "ratios"],
    "library.learning": ["Learning", "learn_job"],
    "library.mashup": ["Mashup", "mashup_job"],
    "methods.automatic": ["Auto"],
    "privacy.alpha_k_anonymity": ["AlphaKAnonymity"],
    "privacy.check": ["Verdict"],
    "privacy.confidence_bounding": ["ConfidenceBounding"],
    "privacy.entropy_l_diversity": ["EntropyLDiversity"],
    "privacy.constrained_k_anonymity": ["ConstrainedKAnonymity"],
    "privacy.k_anonymity": ["KAnonymity"],
    "privacy.l_diversity": ["LDiversity"],
    "privacy.m_privacy.requirement": ["MPrivacy"],
    "privacy.m_privacy.group_verdicts": ["GroupVerdict", "verify_m_privacy"],
    "privacy.p_sensitive_k_anonymity": ["PSensitiveKAnonymity"],
    "privacy.recursive_l_diversity": ["RecursiveLDiversity"],
    "privacy.requirement": ["Requirement"],
    "privacy.t_closeness": ["TCloseness"],
    "risk.attacks.attack": ["Finding"],
    "risk.finding": ["Keys"],
    "risk.publishing": ["Masked"],
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
    function: Callable[..., Any] = import_module("masquerade.library.python_api").anonymize
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
