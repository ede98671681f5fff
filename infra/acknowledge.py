"""How a finding of the rule pack is accepted: on one construct, with its reason."""

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct


def acknowledge(construct: IConstruct, finding: str, reason: str) -> None:
    """Accept one finding, by its exact id, on `construct` and what it contains."""
    Validations.of(construct).acknowledge(Acknowledgment(id=finding, reason=reason))
