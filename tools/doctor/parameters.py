"""The flags: each is there, and means what it says."""

import json
from collections.abc import Callable
from typing import Final

from functions.domain import flags
from tools.doctor.examination import Examination, Group, NotChecked, Seen, Status, check

_FLAGS_LINK: Final = "docs/contract.md#flags"


@check(
    Group.PARAMETERS,
    "parameter-pagination-enabled",
    "Set it to true or false. As it is, every run takes the full path.",
    _FLAGS_LINK,
)
def parameter_pagination_enabled(it: Examination) -> Seen:
    """Paging is clearly on or clearly off."""
    return _truth(_text(it, "PaginationEnabled"))


@check(
    Group.PARAMETERS,
    "parameter-page-size",
    f"Set it to a whole number from 1 to {flags.MAX_PAGE_SIZE:,}.",
    _FLAGS_LINK,
)
def parameter_page_size(it: Examination) -> Seen:
    """The page size means what it says."""
    return _number(_text(it, "PageSize"), flags.page_size_of)


@check(Group.PARAMETERS, "parameter-grouping", "Set it to page or window. As it is, it means page.", _FLAGS_LINK)
def parameter_grouping(it: Examination) -> Seen:
    """The grouping is one of the two."""
    text = _text(it, "Grouping")
    means = "window" if text is not None and flags.groups_by_window(text) else "page"
    return _means(text, means)


@check(
    Group.PARAMETERS,
    "parameter-set-aside-limit",
    "Set it to a whole number; 0 allows no bad record.",
    _FLAGS_LINK,
)
def parameter_set_aside_limit(it: Examination) -> Seen:
    """The limit of bad records means what it says."""
    return _number(_text(it, "SetAsideLimit"), flags.set_aside_limit_of)


@check(
    Group.PARAMETERS,
    "parameter-stop",
    "Set it to false. As it is, no run would be stopped, and whoever wants to stop one must know its name.",
    _FLAGS_LINK,
)
def parameter_stop(it: Examination) -> Seen:
    """The kill switch is clearly on or clearly off."""
    return _truth(_text(it, "Stop"))


@check(
    Group.PARAMETERS,
    "kill-switch",
    "Set the Stop parameter to false when what it was for is over; then start the stopped hours again with Resume.",
    _FLAGS_LINK,
)
def kill_switch(it: Examination) -> Seen:
    """Nobody has left the kill switch on."""
    text = _text(it, "Stop")
    if text is None:
        raise NotChecked("the parameter is missing")
    if flags.is_clear_true(text):
        return Status.FAULT, "on: every run stops before its next page"
    return Status.OK, "off"


def _text(it: Examination, name: str) -> str | None:
    return it.parameters.get(name)


def _truth(text: str | None) -> Seen:
    return _means(text, "true" if text is not None and flags.is_clear_true(text) else "false")


def _number(text: str | None, read: Callable[[str], int]) -> Seen:
    return _means(text, str(read(text or "")))


def _means(text: str | None, meaning: str) -> Seen:
    """A flag is sound where its text is what the product takes it for."""
    if text is None:
        return Status.FAULT, f"missing, which means {meaning}"
    if text.strip().lower() != meaning:
        return Status.FAULT, f"{json.dumps(text)} is taken for {meaning}"
    return Status.OK, meaning
