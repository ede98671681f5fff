"""How to speak to an emulator: with made-up credentials, and with nothing of the caller's AWS configuration."""

from typing import Any, Final

import boto3
import botocore.session
from botocore.config import Config

from tools.emulator.instance import REGION

CREDENTIALS: Final = ("test", "test")
"""Access key id and secret access key."""
ACCOUNT: Final = "000000000000"
"""The account of every caller whose access key is not itself an account's number."""


def session() -> boto3.Session:
    """A session without profile, configuration file and credentials of the caller."""
    nothing = dict.fromkeys(("profile", "config_file", "credentials_file"), (None, None, None, None))
    return boto3.Session(
        *CREDENTIALS,
        region_name=REGION,
        botocore_session=botocore.session.Session(session_vars=nothing),
    )


def client_settings(endpoint: str, *, connections: int = 10) -> dict[str, Any]:
    """What a client of the emulator at `endpoint` is made with; for up to `connections` threads."""
    config = Config(
        connect_timeout=5,
        read_timeout=60,
        retries={"total_max_attempts": 3, "mode": "standard"},
        max_pool_connections=connections,
        proxies={},  # a proxy of the caller's knows no loopback address
    )
    return {"endpoint_url": endpoint, "config": config}


def environment(endpoint: str) -> dict[str, str]:
    """The variables with which another program speaks to the emulator at `endpoint`."""
    access_key, secret_key = CREDENTIALS
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": access_key,
        "AWS_SECRET_ACCESS_KEY": secret_key,
        "AWS_DEFAULT_REGION": REGION,
    }
