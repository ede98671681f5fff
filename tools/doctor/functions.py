"""The functions, what they may do, and what calls the worker."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from botocore.exceptions import ClientError

from tools.doctor.examination import REVERT, Examination, Group, NotChecked, Seen, Status, check, listed, of_each
from tools.doctor.site import MISSING, Resource, Site, code_of


@check(
    Group.FUNCTIONS,
    "functions",
    f"Update it with the stack's code; if it is gone, {REVERT}.",
    "README.md#where-to-look",
)
def functions(it: Examination) -> Seen:
    """Every function is there, and can be called."""
    live = {one.logical_id: found for one, found in it.functions}

    def problem(function: Resource) -> str | None:
        found = live[function.logical_id]
        if found is None:
            return "gone"
        if found.get("State", "Active") not in {"Active", "Inactive"}:  # an inactive one wakes when it is called
            return str(found["State"])
        return "its last update failed" if found.get("LastUpdateStatus") == "Failed" else None

    return of_each(it.stands.of("AWS::Lambda::Function"), problem, "functions can be called")


@check(
    Group.FUNCTIONS,
    "function-concurrency",
    "Remove the function's reserved concurrency, or raise it: what it throttles is tried again and then fails the run.",
    "docs/limits.md#bounds-of-each-part",
)
def function_concurrency(it: Examination) -> Seen:
    """No function is switched off or throttled by a reserve."""

    def problem(function: Resource) -> str | None:
        found = it.site.found("lambda", "get_function_concurrency", FunctionName=function.physical_id) or {}
        reserved = found.get("ReservedConcurrentExecutions")
        if reserved is None or reserved == function.properties.get("ReservedConcurrentExecutions"):
            return None
        return "switched off" if reserved == 0 else f"{reserved} at once" if reserved < it.lanes else None

    return of_each(it.stands.of("AWS::Lambda::Function"), problem, "functions not throttled by a reserve")


@check(
    Group.FUNCTIONS,
    "rights",
    f"Give the role back the actions that are named, or {REVERT}. A step that lacks one fails its run.",
    "README.md#when-a-run-fails",
)
def rights(it: Examination) -> Seen:
    """Every role holds in its own policies what the stack gave it.

    Not looked at: managed policies, a permissions boundary, and the organization's policies.
    """
    policies = it.stands.of("AWS::IAM::Policy")

    def problem(policy: Resource) -> str | None:
        missing: list[str] = []
        for role in it.stands.resolve(policy.properties["Roles"]):
            statements = _role_statements(it.site, role)
            missing += [
                f"{action} on {resource}"
                for action, resource in _granted(it.stands.resolve_document(policy.properties["PolicyDocument"]))
                if not _allows(statements, action, resource)
            ]
        return listed("lacks ", missing) if missing else None

    return of_each(policies, problem, "roles hold what the stack gave them")


@check(
    Group.FUNCTIONS,
    "worker-sources",
    f"Enable the event source mapping, or the queue's tasks are not worked. If it is gone, {REVERT}.",
    "docs/worker.md#where-it-runs",
)
def worker_sources(it: Examination) -> Seen:
    """Where the reference worker was deployed to take tasks, it does."""
    sources = it.stands.of("AWS::Lambda::EventSourceMapping")
    if not sources:
        raise NotChecked("the stack has no worker; look at your own")
    if it.site.embedded:
        raise NotChecked("the embedded AWS does not tell this state")
    states: list[str] = []

    def problem(source: Resource) -> str | None:
        found = it.site.found("lambda", "get_event_source_mapping", UUID=source.physical_id)
        state = found["State"].lower() if found else "gone"
        states.append(state)
        is_meant_to_work = source.properties.get("Enabled", True)
        return state if not found or (is_meant_to_work and state not in {"enabled", "enabling", "updating"}) else None

    status, seen = of_each(sources, problem, "")
    return status, seen if status is Status.FAULT else ", ".join(
        f"{count} {state}" for state, count in Counter(states).items()
    )


def _role_statements(site: Site, role: str) -> list[Mapping[str, Any]]:
    """The statements of a role's own policies."""
    try:
        names = list(site.every("iam", "list_role_policies", "PolicyNames", RoleName=role))
    except ClientError as error:
        if code_of(error) not in MISSING:
            raise
        return []
    documents = [site.ask("iam", "get_role_policy", RoleName=role, PolicyName=name)["PolicyDocument"] for name in names]
    return [statement for document in documents for statement in _several(document["Statement"])]


def _granted(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for statement in document["Statement"]:
        for action in _several(statement["Action"]):
            for resource in _several(statement["Resource"]):
                yield action, resource


def _allows(statements: Iterable[Mapping[str, Any]], action: str, resource: str) -> bool:
    """Whether statements allow an action without a condition, and none of them denies it."""
    effects = {
        statement["Effect"]
        for statement in statements
        if (statement["Effect"] == "Deny" or "Condition" not in statement)
        and any(fnmatchcase(action.lower(), one.lower()) for one in _several(statement.get("Action", ())))
        and any(fnmatchcase(resource, one) for one in _several(statement.get("Resource", ())))
    }
    return effects == {"Allow"}


def _several(value: Any) -> Sequence[Any]:
    """IAM writes one of a thing without a list."""
    return value if isinstance(value, list | tuple) else [value]
