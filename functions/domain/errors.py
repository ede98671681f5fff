"""The stable error names.  Each says who acts; Step Functions matches them by class name in Retry and Catch.

A message names operations, fields and codes, never a booking's data: it reaches the logs.
"""


class DispatcherError(Exception):
    """Base of every error that this product raises on purpose."""


class TransientError(DispatcherError):
    """Nobody acts: the machine tries again (throttling, time-outs, lost connections)."""


class PermanentError(DispatcherError):
    """Somebody acts: trying again with the same state cannot help."""


class InvalidInput(PermanentError):
    """The starter acts: the input breaks the contract; the message names the field."""


class InvalidToken(PermanentError):
    """The state's token is not one of this run's table, index and window."""


class TokenNotAdvancing(PermanentError):
    """A page returned a token that does not lie behind the one it was read from."""


class TooManyBadRecords(PermanentError):
    """The bookings' owner acts: more records were set aside than the limit allows."""


class LeaseLost(PermanentError):
    """This attempt was superseded, or its run no longer holds the edges of its window."""


class WindowBusy(PermanentError):
    """A run of a neighbouring window holds an edge of this one."""


class IndexNotReady(PermanentError):
    """The bookings index is still being created or backfilled."""


class NotApproved(PermanentError):
    """The requester acts: a redo was rejected, not answered in time, or answered by whoever asked for it."""


class ConfigurationError(PermanentError):
    """The stack's owner acts: a name, a right or a setting is wrong."""


class DispatchFailed(PermanentError):
    """Anything else."""


ERRORS_BY_NAME: dict[str, type[DispatcherError]] = {
    kind.__name__: kind
    for kind in (
        TransientError,
        InvalidInput,
        InvalidToken,
        TokenNotAdvancing,
        TooManyBadRecords,
        LeaseLost,
        WindowBusy,
        IndexNotReady,
        NotApproved,
        ConfigurationError,
        DispatchFailed,
    )
}
