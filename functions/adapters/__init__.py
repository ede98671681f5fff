"""The ports of `usecases/ports.py` on AWS; each maps its service's errors to the stable kinds of `domain/errors.py`."""
