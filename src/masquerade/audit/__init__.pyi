from .chained_file import (
    RECOVERED as RECOVERED,
    Anchor as Anchor,
    ChainCheck as ChainCheck,
    ChainedFile as ChainedFile,
    LineError as LineError,
    Record as Record,
    head_path as head_path,
    last_records as last_records,
    read_head as read_head,
    read_line as read_line,
    reading as reading,
)
from .log import CONTROL as CONTROL, AuditLog as AuditLog
from .verification import LogVerification as LogVerification, verify as verify
