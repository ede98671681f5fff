"""Time budgets of one run, in seconds, in one place.

A function stops before its task gives up on it, and a task before its lease expires: otherwise a successor could start
while an attempt still works.  The state machine's numbers are held against these by a test.
"""

from typing import Final

PAGE_FUNCTION_SECONDS: Final = 300
PAGE_TASK_SECONDS: Final = 330
PAGE_LEASE_SECONDS: Final = 390

WINDOW_FUNCTION_SECONDS: Final = 900  # Lambda's own maximum: the full read has no page to stop at
WINDOW_TASK_SECONDS: Final = 930
WINDOW_LEASE_SECONDS: Final = 990

SMALL_FUNCTION_SECONDS: Final = 60
SMALL_TASK_SECONDS: Final = 75

CONNECT_SECONDS: Final = 2
READ_SECONDS: Final = 10
CALL_ATTEMPTS: Final = 3
BATCH_SECONDS: Final = CALL_ATTEMPTS * (CONNECT_SECONDS + READ_SECONDS) + 4
"""The longest that one call may take with its client's own retries and the pauses between them."""
