"""The requirements by the name that a job file gives them."""

from __future__ import annotations

from masquerade.privacy.alpha_k_anonymity import AlphaKAnonymity
from masquerade.privacy.confidence_bounding import ConfidenceBounding
from masquerade.privacy.entropy_l_diversity import EntropyLDiversity
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.l_diversity import LDiversity
from masquerade.privacy.p_sensitive_k_anonymity import PSensitiveKAnonymity
from masquerade.privacy.recursive_l_diversity import RecursiveLDiversity
from masquerade.privacy.requirement import GroupRequirement
from masquerade.privacy.t_closeness import TCloseness

MODELS: dict[str, type[GroupRequirement]] = {
    requirement.model: requirement
    for requirement in (
        KAnonymity,
        LDiversity,
        EntropyLDiversity,
        RecursiveLDiversity,
        TCloseness,
        AlphaKAnonymity,
        ConfidenceBounding,
        PSensitiveKAnonymity,
    )
}
