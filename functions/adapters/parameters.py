"""The flags in the Systems Manager parameter store."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from functions.adapters.clients import translated


@dataclass(frozen=True, slots=True)
class SsmParameters:
    """`Parameters` on the parameter store; `names` maps each flag to the parameter that holds it."""

    client: Any
    names: Mapping[str, str]

    def read(self) -> dict[str, str]:
        """The flags whose parameter exists, fresh, in one call.

        Raises:
            TransientError, ConfigurationError: the call failed; the old values are never assumed instead.
        """
        with translated("GetParameters"):
            response = self.client.get_parameters(Names=list(self.names.values()))
        values = {parameter["Name"]: parameter["Value"] for parameter in response["Parameters"]}
        return {flag: values[name] for flag, name in self.names.items() if name in values}
