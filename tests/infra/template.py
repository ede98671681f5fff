"""A synthesized template with its references written as text, so that a test compares whole values."""

import re
from dataclasses import dataclass
from typing import Any

_HASH = re.compile(r"[0-9A-F]{8}$")


@dataclass(frozen=True)
class StackTemplate:
    """`name` below is a logical id without the hash at its end."""

    document: dict[str, Any]

    def resources(self, kind: str) -> dict[str, Any]:
        """Every resource of a type by its name, references as text."""
        return {
            _name(logical_id): _plain(resource)
            for logical_id, resource in self.document["Resources"].items()
            if resource["Type"] == kind
        }

    def properties(self, kind: str) -> dict[str, Any]:
        return {name: resource.get("Properties", {}) for name, resource in self.resources(kind).items()}

    def outputs(self) -> dict[str, str]:
        """Values by their exact keys."""
        return {key: _plain(output["Value"]) for key, output in self.document["Outputs"].items()}

    def kinds(self) -> set[str]:
        return {resource["Type"] for resource in self.document["Resources"].values()}

    def rights(self, role: str) -> set[tuple[str, str]]:
        """Every (action, resource) that a role is allowed; no condition, no managed policy, nothing denied."""
        described = self.properties("AWS::IAM::Role")[role]
        assert not described.keys() & {"ManagedPolicyArns", "Policies"}
        policies = [
            policy["PolicyDocument"]["Statement"]
            for policy in self.properties("AWS::IAM::Policy").values()
            if policy["Roles"] == [f"<{role}>"]
        ]
        rights = set()
        for statement in (statement for policy in policies for statement in policy):
            assert statement.keys() == {"Action", "Effect", "Resource"}
            assert statement["Effect"] == "Allow"
            rights |= {(action, arn) for action in _list(statement["Action"]) for arn in _list(statement["Resource"])}
        return rights


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _name(logical_id: str) -> str:
    return _HASH.sub("", logical_id)


def _plain(value: Any) -> Any:
    plain = value
    match value:
        case {"Ref": str(target)}:
            plain = f"<{_name(target)}>"
        case {"Fn::GetAtt": [str(target), str(attribute)]}:
            plain = f"<{_name(target)}.{attribute}>"
        case {"Fn::Join": [str(separator), list(parts)]}:
            plain = separator.join(_plain(part) for part in parts)
        case {"Fn::Sub": str(text)}:
            plain = text
        case dict():
            plain = {key: _plain(content) for key, content in value.items()}
        case list():
            plain = [_plain(content) for content in value]
    return plain
