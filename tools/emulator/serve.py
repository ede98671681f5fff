"""The emulator's own process: `python -m tools.emulator.serve SOCKET DIRECTORY`, started by `instance.start`."""

import asyncio
import importlib
import sys
from pathlib import Path

from hypercorn.asyncio import serve
from hypercorn.config import Config

from tools.emulator import instance, patches


def main() -> None:
    """Serve on the inherited, loopback-bound socket until SIGTERM, for the instance of `DIRECTORY`."""
    listener, directory = int(sys.argv[1]), Path(sys.argv[2])
    instance.record_this_process(directory)
    patches.apply(instance.function_interpreter(directory))
    config = Config()
    config.bind = [f"fd://{listener}"]
    config.keep_alive_timeout = 75.0  # longer than clients keep an idle connection, so that none meets a closed one
    app = importlib.import_module("ministack.app").app
    # Nothing outlives the process, so SIGTERM ends it at once: a trigger that never comes keeps hypercorn from
    # catching the signal and waiting for open connections.
    asyncio.run(serve(app, config, shutdown_trigger=asyncio.Event().wait))


if __name__ == "__main__":
    main()
