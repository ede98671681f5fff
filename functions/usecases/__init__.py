"""One module for each task of the state machine, over the ports of `ports.py`."""
