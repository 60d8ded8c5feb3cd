from .calls import (
    MODEL_SUFFIX as MODEL_SUFFIX,
    SessionFailed as SessionFailed,
    checked_session as checked_session,
    is_of_request as is_of_request,
    keys_of as keys_of,
    placed as placed,
    read_configuration as read_configuration,
    unless_failed as unless_failed,
    whole_request as whole_request,
)
from .clients import AsyncClient as AsyncClient, Client as Client
from .settings import ClientSettings as ClientSettings, found_settings as found_settings, read_settings as read_settings
