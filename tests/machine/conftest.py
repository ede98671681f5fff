import logging
from collections.abc import Iterator

import pytest
from moto import mock_aws

from tests.machine.walk import Account, Walk, forget_clients


@pytest.fixture
def account(caplog: pytest.LogCaptureFixture) -> Iterator[Account]:
    caplog.set_level(logging.CRITICAL, logger="moto")  # it warns of every error that a state machine handles
    with mock_aws(config={"stepfunctions": {"execute_state_machine": True}}):
        yield Account()


@pytest.fixture
def walk(account: Account, monkeypatch: pytest.MonkeyPatch) -> Iterator[Walk]:
    yield Walk(account, monkeypatch)
    forget_clients()
