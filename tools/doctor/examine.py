"""All checks, made."""

import json
from typing import Final

from tools.doctor import account, functions, parameters, queues, quotas, stack, table
from tools.doctor.examination import BookingsTable, Check, Examination, Finding, Group, When
from tools.doctor.site import DeployedStack, UnresolvedError

_PLACES: Final = {group: place for place, group in enumerate(Group)}

CHECKS: Final = sorted(
    (
        one
        for module in (account, table, parameters, stack, functions, queues, quotas)
        for one in vars(module).values()
        if isinstance(one, Check)
    ),
    key=lambda one: _PLACES[one.group],
)
"""Every check, group by group."""


def examine(it: Examination) -> list[Finding]:
    """All findings about an account, with its table and its stack as far as they are given.

    Where the credentials are not accepted, nothing else is asked.
    """
    groups = {Group.ACCOUNT, Group.QUOTAS}
    if it.table:
        groups |= {Group.TABLE, Group.INDEX}
    if it.stack:
        groups |= set(Group)
    if it.site.greeting.error:
        return [one.finding(it) for one in (account.credentials, account.clock)]
    return [
        one.finding(it)
        for one in CHECKS
        if one.group in groups and one.when in {When.ALWAYS, When.AFTER if it.stack else When.BEFORE}
    ]


def table_of(stack: DeployedStack) -> BookingsTable:
    """The bookings table that a stack reads, as its functions were told of it."""
    for function in stack.of("AWS::Lambda::Function"):
        variables = function.properties.get("Environment", {}).get("Variables", {})
        if "BOOKING_KEY_ATTRIBUTES" in variables and "BOOKING_SHARDS" in variables:
            return BookingsTable(
                name=stack.outputs["BookingTableName"],
                index=stack.outputs["BookingIndexName"],
                keys=tuple(json.loads(variables["BOOKING_KEY_ATTRIBUTES"])),
                date_attribute=stack.outputs["BookingDateAttribute"],
                shards=int(stack.outputs["BookingShards"]),
            )
    raise UnresolvedError("none of the stack's functions reads bookings")
