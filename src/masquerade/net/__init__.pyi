from .channel import (
    PROTOCOL_VERSION as PROTOCOL_VERSION,
    Agreement as Agreement,
    Channel as Channel,
    PartyAddress as PartyAddress,
    Timings as Timings,
    is_host as is_host,
    leave_message as leave_message,
)
from .connect import Listener as Listener, listen as listen
from .identity import (
    AUTHORITY_FILE as AUTHORITY_FILE,
    CERTIFICATE_FILE as CERTIFICATE_FILE,
    KEY_FILE as KEY_FILE,
    TRUST_FOLDER as TRUST_FOLDER,
    Identity as Identity,
    TrustStore as TrustStore,
    add_to_store as add_to_store,
    check_name as check_name,
    ends_soon as ends_soon,
    fingerprint as fingerprint,
    is_signed as is_signed,
    make_trial as make_trial,
    out_of_date as out_of_date,
    party_of as party_of,
    self_signed as self_signed,
    signing_key as signing_key,
    trial_identities as trial_identities,
)
from .probing import ProbeResult as ProbeResult, explain as explain, first_cause as first_cause, probe as probe
from .script import (
    Message as Message,
    Move as Move,
    Receive as Receive,
    Script as Script,
    Send as Send,
    TolerantReceive as TolerantReceive,
    TolerantSend as TolerantSend,
    kind_of as kind_of,
)
from .session import run_async as run_async, run_script as run_script
from .tls_stream import network_of as network_of
from .transcript import (
    Direction as Direction,
    Entry as Entry,
    Transcript as Transcript,
    read_transcript as read_transcript,
)
