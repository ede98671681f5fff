"""What holds for every unit test: no socket, the same examples every time."""

import socket
import time
from collections.abc import Iterator
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings

from functions.domain.pack import Layout
from tests.unit.fakes import World

settings.register_profile(
    "unit",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("unit")


@pytest.fixture(autouse=True)
def no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> NoReturn:
        raise AssertionError("a unit test opened a socket")

    monkeypatch.setattr(socket.socket, "__init__", refuse)


@pytest.fixture(scope="module", params=Layout)
def either_layout(request: pytest.FixtureRequest) -> Iterator[Layout]:
    """Every test of a module that uses this is run in both layouts of task data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(World, "layout", request.param)
        yield request.param


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(params=["UTC", "Asia/Singapore", "America/St_Johns"])
def machine_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The time zone of the machine that the test runs on."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()
