"""What developers and operators run: `python -m tools.<module>`."""
