from .align.identifiers import identifiers as identifiers
from .assembling import assemble as assemble
from .common_records import (
    find_common_rows as find_common_rows,
    handed_in as handed_in,
    refuse_unknown_to as refuse_unknown_to,
)
from .contract import (
    EVERYBODY as EVERYBODY,
    OUTCOMES as OUTCOMES,
    AttributeTerms as AttributeTerms,
    Contract as Contract,
    Contribution as Contribution,
    MethodChoice as MethodChoice,
    OutcomeRole as OutcomeRole,
    PassedOver as PassedOver,
    Role as Role,
    read_requirement as read_requirement,
    terms_of as terms_of,
    written_requirement as written_requirement,
)
from .disclosure import (
    DisclosedClass as DisclosedClass,
    DisclosedColumn as DisclosedColumn,
    disclosed_by_join as disclosed_by_join,
)
from .hand_in import (
    Columns as Columns,
    Gain as Gain,
    OwnPart as OwnPart,
    Received as Received,
    ReportedStep as ReportedStep,
    write_columns as write_columns,
)
from .joint_keys import (
    LEAST_RECORDS as LEAST_RECORDS,
    MOST_SETS as MOST_SETS,
    JointKeys as JointKeys,
    JointRatios as JointRatios,
)
from .learn.bayes_net import BayesNetMethod as BayesNetMethod, NetModel as NetModel
from .learn.cox import CoxRegressionMethod as CoxRegressionMethod, CoxSurvival as CoxSurvival
from .learn.id3 import Id3 as Id3, TreeModel as TreeModel
from .learn.inference import Coefficient as Coefficient, Inference as Inference, InferenceRow as InferenceRow
from .learn.linear import (
    LinearClassifier as LinearClassifier,
    LogisticModel as LogisticModel,
    LogisticRegressionMethod as LogisticRegressionMethod,
    SupportVectors as SupportVectors,
)
from .learn.method import (
    LearningMethod as LearningMethod,
    LearningProposal as LearningProposal,
    alone_at as alone_at,
    complete_records as complete_records,
)
from .learn.models import (
    Cells as Cells,
    Classifier as Classifier,
    Learned as Learned,
    Model as Model,
    NotAModel as NotAModel,
    concordance as concordance,
)
from .learn.predicting import (
    SHOWN as SHOWN,
    Asked as Asked,
    PredictedRecords as PredictedRecords,
    UnseenValues as UnseenValues,
    answers as answers,
    inputs_of as inputs_of,
    predictions as predictions,
    unseen_of as unseen_of,
    unseen_values as unseen_values,
)
from .learn.projected import (
    MappedCox as MappedCox,
    MappedMethod as MappedMethod,
    MappedSpaceModel as MappedSpaceModel,
    MappedSvm as MappedSvm,
    PpCoxMethod as PpCoxMethod,
    PpSvmMethod as PpSvmMethod,
)
from .learn.projection import SiteKey as SiteKey
from .learn.site import READERS as READERS, cells_of as cells_of, own_codes as own_codes
from .method import (
    ASSEMBLER as ASSEMBLER,
    REPORTED_SETTINGS as REPORTED_SETTINGS,
    Agreed as Agreed,
    AskedMethod as AskedMethod,
    Assembly as Assembly,
    Automatic as Automatic,
    OnSettled as OnSettled,
    Participant as Participant,
    Proposal as Proposal,
    RoleName as RoleName,
    SessionMethod as SessionMethod,
    Settled as Settled,
    VerticalMethod as VerticalMethod,
    accepted as accepted,
    forgotten as forgotten,
    proposal_of as proposal_of,
    way_to_align as way_to_align,
)
from .own_rows import read_own_records as read_own_records, wanted_of_party as wanted_of_party, why_whole as why_whole
from .providers.criterion import testable_models as testable_models
from .providers.domains import KEEP_AMONG_PROVIDERS as KEEP_AMONG_PROVIDERS
