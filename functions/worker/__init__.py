"""The reference worker: takes tasks from the queues and grants each record version once.

Nothing of the dispatcher knows it, and of the dispatcher it knows the domain only: a library for other workers too.
"""
