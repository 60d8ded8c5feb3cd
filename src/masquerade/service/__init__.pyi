from .accounts import (
    LONGEST_LIFETIME as LONGEST_LIFETIME,
    SHORTEST_PASSWORD as SHORTEST_PASSWORD,
    USUAL_LIFETIME as USUAL_LIFETIME,
    USUAL_SCOPES as USUAL_SCOPES,
    AccountLog as AccountLog,
    Accounts as Accounts,
    SignInSource as SignInSource,
    checked_password as checked_password,
    client_address as client_address,
    require as require,
)
from .agree.arrangements import RULES as RULES, against as against
from .agree.policy import ANY as ANY
from .agree.quality import (
    KEPT as KEPT,
    LOSSES as LOSSES,
    QUALITY_TERMS as QUALITY_TERMS,
    limits_of as limits_of,
    missed_terms as missed_terms,
    said_of as said_of,
    said_of_binding as said_of_binding,
    said_of_expected as said_of_expected,
    said_of_losses as said_of_losses,
    why_waits as why_waits,
)
from .agree.request import DEFAULT_ARRANGEMENT as DEFAULT_ARRANGEMENT, Request as Request, read_request as read_request
from .agree.signing import SignedContract as SignedContract, read_contract as read_contract
from .api.app import create_app as create_app
from .api.middleware import SECURE as SECURE, OverLimit as OverLimit, RateLimit as RateLimit, address_key as address_key
from .cards import ColumnCard as ColumnCard, SchemaCard as SchemaCard
from .coordinator.coordinator import Coordinator as Coordinator
from .coordinator.directory import missed_levels as missed_levels
from .coordinator.serving import serving as serving
from .coordinator.settings import CoordinatorSettings as CoordinatorSettings, open_store as open_store
from .ledger import Ledger as Ledger
from .logs import configure as configure
from .node.admission import Approvals as Approvals, decide as decide
from .node.datasets import Dataset as Dataset, open_datasets as open_datasets
from .node.preview import described as described, preview as preview, review_page as review_page
from .node.serving import running as running
from .node.settings import DatasetSettings as DatasetSettings, NodeSettings as NodeSettings
from .node.state import StateFolder as StateFolder, hand_out as hand_out
from .resources import (
    Account as Account,
    Event as Event,
    IssuedToken as IssuedToken,
    LedgerEntry as LedgerEntry,
    Page as Page,
    PartyOffer as PartyOffer,
    Provider as Provider,
    PublishedRelease as PublishedRelease,
    RequestPreview as RequestPreview,
    Role as Role,
    Scope as Scope,
    Session as Session,
    SignedIn as SignedIn,
    Token as Token,
    TokenKind as TokenKind,
    User as User,
)
from .session_states import Decision as Decision, Status as Status
from .snapshot import fits as fits, provision_of as provision_of, read_key as read_key
from .store.database import VERSION_TABLE as VERSION_TABLE, alembic_config as alembic_config, user_name as user_name
from .store.records import ApiToken as ApiToken, SessionRecord as SessionRecord, StoredRelease as StoredRelease
from .store.store import Store as Store
from .wire.control import Health as Health, Parties as Parties
from .wire.peers import PeerHttp as PeerHttp
from .wire.problems import error_of as error_of, read_problems as read_problems
from .wire.serving import ConnectionLimits as ConnectionLimits, listening_at as listening_at, served as served
