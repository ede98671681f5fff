"""The account, who asks, and from where."""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from tools.doctor.examination import Examination, Group, NotChecked, Seen, Status, When, check, listed

SKEW_WARNING_SECONDS: Final = 60
SKEW_FAULT_SECONDS: Final = 300
"""A request that is dated further off is refused."""
BOOTSTRAP_PARAMETER: Final = "/cdk-bootstrap/hnb659fds/version"
BOOTSTRAP_VERSION: Final = 6
"""What a template of this CDK asks for.  Source: its rule `CheckBootstrapVersion`."""
LEAST_PYTHON: Final = (3, 11)
LEAST_NODE: Final = 20


@check(
    Group.ACCOUNT,
    "credentials",
    "Sign in again, or name another profile with --profile, and a region with --region.",
    "README.md#deploy-it-to-an-account",
)
def credentials(it: Examination) -> Seen:
    """The credentials answer, and say whose they are."""
    greeting = it.site.greeting
    if not greeting.error:
        return Status.OK, f"{greeting.caller} in account {greeting.account}, {it.site.region}"
    if abs(greeting.skew_seconds or 0) >= SKEW_FAULT_SECONDS:
        raise NotChecked("with a wrong clock no credentials are accepted")
    return Status.FAULT, greeting.error


@check(
    Group.ACCOUNT,
    "clock",
    "Set this machine's clock (NTP): AWS refuses requests that are dated five minutes off.",
    "README.md#deploy-it-to-an-account",
)
def clock(it: Examination) -> Seen:
    """This machine's clock agrees with AWS's."""
    skew = it.site.greeting.skew_seconds
    if skew is None:
        raise NotChecked("AWS's answer has no date")
    seen = f"{abs(skew):,.0f} s {'behind' if skew > 0 else 'ahead of'} AWS"
    if abs(skew) >= SKEW_FAULT_SECONDS:
        return Status.FAULT, seen
    return (Status.WARNING, seen) if abs(skew) >= SKEW_WARNING_SECONDS else (Status.OK, seen)


@check(
    Group.ACCOUNT,
    "bootstrap",
    "Run `npx cdk bootstrap aws://ACCOUNT/REGION` once, with the locked CDK.",
    "README.md#deploy-it-to-an-account",
)
def bootstrap(it: Examination) -> Seen:
    """The account and region are prepared for the CDK."""
    found = it.site.ask("ssm", "get_parameters", Names=[BOOTSTRAP_PARAMETER])["Parameters"]
    if not found:
        return Status.FAULT, f"no parameter {BOOTSTRAP_PARAMETER}"
    version = found[0]["Value"]
    if not version.isdecimal() or int(version) < BOOTSTRAP_VERSION:
        return Status.FAULT, f"version {version}, {BOOTSTRAP_VERSION} is needed"
    return Status.OK, f"version {version}"


@check(
    Group.ACCOUNT,
    "deploy-rights",
    "Let the caller assume the roles that the CDK's bootstrap made, or deploy as somebody who may.",
    "README.md#deploy-it-to-an-account",
    when=When.BEFORE,
)
def deploy_rights(it: Examination) -> Seen:
    """The caller may assume the roles by which the CDK deploys."""
    greeting, partition = it.site.greeting, it.site.greeting.caller.split(":")[1]
    tail = f"role-{greeting.account}-{it.site.region}"
    roles = [
        f"arn:{partition}:iam::{greeting.account}:role/cdk-hnb659fds-{name}-{tail}"
        for name in ("deploy", "file-publishing")
    ]
    return _rights(it, [(["sts:AssumeRole"], role) for role in roles])


@check(
    Group.ACCOUNT,
    "operate-rights",
    "Give the caller the actions that are named, on the stack's own resources.",
    "README.md#when-a-run-fails",
    when=When.AFTER,
)
def operate_rights(it: Examination) -> Seen:
    """The caller may start, look at and mend runs."""
    outputs = it.stands.outputs
    partition, region, account = it.stands.pseudo.values()
    machine = outputs["DispatchStateMachineArn"]
    executions = machine.replace(":stateMachine:", ":execution:") + ":*"
    table, bucket = f"arn:{partition}:dynamodb:{region}:{account}:table/", f"arn:{partition}:s3:::"
    return _rights(
        it,
        [
            (["states:StartExecution", "states:ListExecutions"], machine),
            (
                [
                    f"states:{name}"
                    for name in ("DescribeExecution", "GetExecutionHistory", "RedriveExecution", "StopExecution")
                ],
                executions,
            ),
            (["dynamodb:GetItem", "dynamodb:Query"], f"{table}{outputs['LedgerTableName']}"),
            (["dynamodb:Query"], f"{table}{outputs['BookingTableName']}/index/{outputs['BookingIndexName']}"),
            (["s3:ListBucket"], f"{bucket}{outputs['TaskDataBucketName']}"),
            (["s3:GetObject"], f"{bucket}{outputs['TaskDataBucketName']}/*"),
            (
                ["ssm:GetParameters", "ssm:PutParameter"],
                f"arn:{partition}:ssm:{region}:{account}:parameter{outputs['StopParameter']}",
            ),
        ],
    )


@check(
    Group.ACCOUNT,
    "local-tools",
    "Install Python 3.11 or newer and Node.js 20 or newer; `make deploy` installs the rest.",
    "README.md#two-commands",
    when=When.BEFORE,
)
def local_tools(_: Examination) -> Seen:
    """This machine has what a deployment takes."""
    python, node = sys.version_info[:3], node_version()
    seen = f"Python {'.'.join(map(str, python))}, " + (f"Node.js {node}" if node else "no Node.js")
    major = re.match(r"v?([0-9]+)", node or "")
    fits = python >= LEAST_PYTHON and major is not None and int(major[1]) >= LEAST_NODE
    return (Status.OK if fits else Status.FAULT), seen


def node_version() -> str | None:
    """The version of this machine's Node.js, or None where it has none."""
    node = shutil.which("node")
    if node is None:
        return None
    done = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=20, check=False)
    return done.stdout.strip() or None


def _rights(it: Examination, needed: Sequence[tuple[list[str], str]]) -> Seen:
    """Whether the caller's own policies allow all of it, as IAM's simulator sees them."""
    caller = it.site.greeting.caller
    if caller.endswith(":root"):
        return Status.OK, "the account's root may do everything"
    source = _policies_of(it, caller)
    missing = [
        f"{result['EvalActionName']} on {resource}"
        for actions, resource in needed
        for result in it.site.ask(
            "iam",
            "simulate_principal_policy",
            PolicySourceArn=source,
            ActionNames=actions,
            ResourceArns=[resource],
        )["EvaluationResults"]
        if result["EvalDecision"] != "allowed"
    ]
    if missing:
        return Status.FAULT, listed("not allowed: ", missing)
    return Status.OK, f"{sum(len(actions) for actions, _ in needed)} actions are allowed"


def _policies_of(it: Examination, caller: str) -> str:
    """The user or role whose policies the caller has; the simulator takes no session."""
    kind, _, name = caller.split(":", 5)[5].partition("/")
    if kind == "assumed-role":
        # The session's ARN leaves out the path that the role's own has.
        arn: str = it.site.ask("iam", "get_role", RoleName=name.partition("/")[0])["Role"]["Arn"]
        return arn
    if kind != "user":
        raise NotChecked(f"{caller} is neither a user nor a role")
    return caller
