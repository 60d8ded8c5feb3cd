"""Every exhibit of the papers that an experiment repeats, by paper."""

from _exhibits.data_integration import DATA_INTEGRATION, MASHUP
from _exhibits.distributed_k_anonymity import DISTRIBUTED_K_ANONYMITY
from _exhibits.m_privacy import M_PRIVACY
from _exhibits.workshop import APPLICATION_ORIENTED, CONSTRAINED, LUNG_CANCER, QUASI_IDENTIFIERS, SECURE_LOGARITHM

PAPERS = (
    DATA_INTEGRATION,
    MASHUP,
    DISTRIBUTED_K_ANONYMITY,
    M_PRIVACY,
    APPLICATION_ORIENTED,
    QUASI_IDENTIFIERS,
    SECURE_LOGARITHM,
    CONSTRAINED,
    LUNG_CANCER,
)
