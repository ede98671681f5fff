"""The flags: four that a run reads once, at its start, and the kill switch that it reads before each page."""

from aws_cdk import aws_ssm as ssm
from constructs import Construct

from infra.stage import Stage


class RunParameters(Construct):
    """Five SSM parameters.  A deployment gives their first values; after that they are the operator's.

    CloudFormation writes a value again only when it changes *here*: what an operator sets survives a deploy.
    """

    def __init__(self, scope: Construct, construct_id: str, *, stage: Stage) -> None:
        super().__init__(scope, construct_id)
        self._stage = stage
        self.pagination_enabled = self._parameter(
            "PaginationEnabled",
            "true" if stage.pagination_enabled else "false",
            "Only a clear true takes the paged path; all else is the full read.",
        )
        self.page_size = self._parameter("PageSize", "1000", "Bookings that one page evaluates at most.")
        self.grouping = self._parameter("Grouping", "page", "Where groups are formed: page or window.")
        self.set_aside_limit = self._parameter("SetAsideLimit", "100", "Bad records before a run fails.")
        self.stop = self._parameter("Stop", "false", "The kill switch: true stops every run before its next page.")

    def _parameter(self, name: str, value: str, description: str) -> ssm.StringParameter:
        return ssm.StringParameter(
            self,
            name,
            parameter_name=f"/BookingtimeDispatcher/{self._stage.name}/BookingDispatcher{name}",
            string_value=value,
            description=description,
        )
