"""Time budgets of one run, in seconds, in one place.

A function stops before its task gives up on it, and a task before its lease expires: otherwise a successor could start
while an attempt still works.  The state machine's numbers are held against these by a test.
"""

from typing import Final

TASK_MARGIN_SECONDS: Final = 30
"""For Lambda to end a function that ran out of time, and for its cold start."""
LEASE_MARGIN_SECONDS: Final = 60
"""For the machine to begin the next attempt, which renews the lease."""

PAGE_FUNCTION_SECONDS: Final = 300
PAGE_TASK_SECONDS: Final = PAGE_FUNCTION_SECONDS + TASK_MARGIN_SECONDS
PAGE_LEASE_SECONDS: Final = PAGE_TASK_SECONDS + LEASE_MARGIN_SECONDS

WINDOW_FUNCTION_SECONDS: Final = 900  # Lambda's own maximum: the full read has no page to stop at
WINDOW_TASK_SECONDS: Final = WINDOW_FUNCTION_SECONDS + TASK_MARGIN_SECONDS
WINDOW_LEASE_SECONDS: Final = WINDOW_TASK_SECONDS + LEASE_MARGIN_SECONDS

SMALL_FUNCTION_SECONDS: Final = 60
SMALL_TASK_SECONDS: Final = SMALL_FUNCTION_SECONDS + 15

APPROVAL_TASK_SECONDS: Final = 24 * 3600
"""So long a redo waits for a second person's answer."""

WORKER_FUNCTION_SECONDS: Final = 120
QUEUE_VISIBILITY_SECONDS: Final = 6 * WORKER_FUNCTION_SECONDS
"""As AWS advises: a batch must not come again while its function works, or waits because it was throttled.

Source: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html
"""

CONNECT_SECONDS: Final = 2
READ_SECONDS: Final = 10
CALL_ATTEMPTS: Final = 3
CALL_SECONDS: Final = CALL_ATTEMPTS * (CONNECT_SECONDS + READ_SECONDS) + 4
"""The longest that one call may take with its client's own retries and the pauses between them."""
