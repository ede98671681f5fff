"""`dispatchctl`, or `python -m tools.dispatchctl`."""

import sys

from botocore.exceptions import BotoCoreError, ClientError

from functions.domain.errors import DispatcherError, InvalidInput
from tools.application import NotDeployedError, RunFailedError
from tools.deployment import DeploymentError
from tools.dispatchctl.shell import CommandError, ExitCode, app
from tools.emulator.instance import EmulatorError
from tools.filelock import LockedError


def main() -> None:
    """Run the command line; an error that its user can act on is one message, any other one a traceback."""
    try:
        app(prog_name="dispatchctl")
    except CommandError as error:
        _leave(error, error.code)
    except NotDeployedError as error:
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
    print(f"dispatchctl: {error}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
