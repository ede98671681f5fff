"""`make stop`, at last."""

import http.client
import urllib.parse

import pytest

from tests.deployed.application import Application
from tests.deployed.conftest import Make
from tools.workspace import Workspace


def test_make_stop_ends_the_embedded_aws_and_can_be_repeated(
    application: Application, workspace: Workspace, make: Make
) -> None:
    assert workspace.outputs.exists()

    assert "has ended" in make("stop")

    assert not workspace.outputs.exists()
    address = urllib.parse.urlsplit(application.endpoint)
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection(str(address.hostname), address.port, timeout=5).request("GET", "/")
    assert "was running" in make("stop")
