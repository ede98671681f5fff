"""`dispatchctl`, or `python -m tools.dispatchctl`."""

import sys

from botocore.exceptions import BotoCoreError, ClientError

from functions.domain.errors import DispatcherError, InvalidInput
from tools.application import NotDeployedError, RunFailedError
from tools.command_line import NAME
from tools.deployment import DeploymentError
from tools.dispatchctl import approve as _approve  # noqa: F401 -- its import adds its commands
from tools.dispatchctl import compare as _compare  # noqa: F401 -- its import adds its commands
from tools.dispatchctl import cost as _cost  # noqa: F401 -- its import adds its commands
from tools.dispatchctl import doctor as _doctor  # noqa: F401 -- its import adds its commands
from tools.dispatchctl import reconcile as _reconcile  # noqa: F401 -- its import adds its commands
from tools.dispatchctl import redo as _redo  # noqa: F401 -- its import adds its commands
from tools.dispatchctl import report as _report  # noqa: F401 -- its import adds its commands
from tools.dispatchctl import run as _run  # noqa: F401 -- its import adds its commands
from tools.dispatchctl import seed as _seed  # noqa: F401 -- its import adds its commands
from tools.dispatchctl import show as _show  # noqa: F401 -- its import adds its commands
from tools.dispatchctl import status as _status  # noqa: F401 -- its import adds its commands
from tools.dispatchctl import stop as _stop  # noqa: F401 -- its import adds its commands
from tools.dispatchctl import up as _up  # noqa: F401 -- its import adds its commands
from tools.dispatchctl import why as _why  # noqa: F401 -- its import adds its commands
from tools.dispatchctl.shell import CommandError, ExitCode, app
from tools.emulator.instance import EmulatorError
from tools.filelock import LockedError
from tools.runs.records import UnknownRunError


def main() -> None:
    """Run the command line; an error that its user can act on is one message, any other one a traceback."""
    try:
        app(prog_name=NAME)
    except CommandError as error:
        _leave(error, error.code)
    except (NotDeployedError, UnknownRunError) as error:
        _leave(error, ExitCode.NOT_FOUND)
    except InvalidInput as error:
        _leave(error, ExitCode.USAGE)
    except (
        BotoCoreError,
        ClientError,
        DeploymentError,
        DispatcherError,
        EmulatorError,
        LockedError,
        RunFailedError,
    ) as error:
        _leave(error, ExitCode.FAILED)


def _leave(error: Exception, code: ExitCode) -> None:
    print(f"{NAME}: {error}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
