"""What a function's start takes: a program of its own, since whatever it imported itself would not be counted.

    python -I -S benchmarks/started_function.py .local/bundle/local functions.handlers.dispatch_page dispatch
    python -I -S benchmarks/started_function.py .local/bundle/local boto3

It imports from the bundle's directory alone.  With `dispatch` it makes the function's collaborators too, clients
included; with `boto3` it makes three clients.  It prints the processor seconds that this took, without Python's own.
"""

import importlib
import sys
import time


def main(directory: str, module: str, collaborators: str = "") -> None:
    """Import, make what is to be made, and print what it took."""
    sys.path.insert(0, directory)
    begun = time.process_time()
    imported = importlib.import_module(module)
    if module == "boto3":
        for service in ("dynamodb", "s3", "sqs"):
            imported.client(service)
    if collaborators:
        getattr(importlib.import_module("functions.handlers.wiring"), collaborators)()
    print(time.process_time() - begun)


if __name__ == "__main__":
    main(*sys.argv[1:])
