from .check import (
    ReidentificationRisk as ReidentificationRisk,
    ReleasedRows as ReleasedRows,
    Verdict as Verdict,
    Violations as Violations,
    count_groups as count_groups,
    insist as insist,
    reidentification_risk as reidentification_risk,
    verify as verify,
    violations_alone as violations_alone,
    with_violations as with_violations,
)
from .combined import AlphaKAnonymity as AlphaKAnonymity, PSensitiveKAnonymity as PSensitiveKAnonymity
from .confidence_bounding import ConfidenceBounding as ConfidenceBounding
from .entropy_l_diversity import EntropyLDiversity as EntropyLDiversity
from .k_anonymity import ConstrainedKAnonymity as ConstrainedKAnonymity, KAnonymity as KAnonymity
from .l_diversity import LDiversity as LDiversity
from .m_privacy import VERIFICATIONS as VERIFICATIONS
from .m_privacy.constraint import (
    ANONYMIZATION_WEIGHT as ANONYMIZATION_WEIGHT,
    can_wrap as can_wrap,
    constraint_of as constraint_of,
)
from .m_privacy.groups import GroupCheck as GroupCheck, ProviderCounts as ProviderCounts
from .m_privacy.requirement import (
    GroupVerdict as GroupVerdict,
    MPrivacy as MPrivacy,
    MPrivateGroups as MPrivateGroups,
    verify_m_privacy as verify_m_privacy,
    with_coalitions as with_coalitions,
)
from .recursive_l_diversity import RecursiveLDiversity as RecursiveLDiversity
from .registry import M_PRIVACY as M_PRIVACY, REQUIREMENTS as REQUIREMENTS, requirement_named as requirement_named
from .requirement import (
    CircuitCounts as CircuitCounts,
    Conjunction as Conjunction,
    Covers as Covers,
    GroupRequirement as GroupRequirement,
    Requirement as Requirement,
    SharedRow as SharedRow,
    covers as covers,
    covers_against_insiders as covers_against_insiders,
    limit as limit,
    limits_of as limits_of,
    plural as plural,
    qid as qid,
    with_sensitive_given_once as with_sensitive_given_once,
    without_redundant as without_redundant,
)
from .sql import SqlVerdict as SqlVerdict, check_in_sql as check_in_sql
from .t_closeness import TCloseness as TCloseness
