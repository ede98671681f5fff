"""What the stack consists of, its functions and queues apart, and who is told."""

import json
from collections.abc import Mapping
from typing import Any

from tools.doctor.examination import REVERT, Examination, Group, Seen, Status, check, listed, not_kept, of_each, unlike
from tools.doctor.site import Resource


@check(
    Group.STACK,
    "stack-complete",
    "Look at the stack's events in CloudFormation, and deploy again.",
    "README.md#deploy-it-to-an-account",
)
def stack_complete(it: Examination) -> Seen:
    """The last deployment ended well."""
    status = it.stands.status
    sound = {"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"}
    seen = f"{it.stands.name} is {status}, {len(it.stands.resources):,} resources"
    return (Status.OK if status in sound else Status.FAULT), seen


@check(Group.STACK, "state-machines", f"Make it anew: {REVERT}.", "README.md#where-to-look")
def state_machines(it: Examination) -> Seen:
    """Every state machine is there, and can be started."""
    machines = it.stands.of("AWS::StepFunctions::StateMachine")

    def problem(machine: Resource) -> str | None:
        found = it.site.found("stepfunctions", "describe_state_machine", stateMachineArn=machine.physical_id)
        return unlike("ACTIVE", found and found["status"])

    return of_each(machines, problem, "state machines active")


@check(
    Group.STACK,
    "schedules",
    f"Enable the schedule, and start the hours that it missed. If it is gone, {REVERT}.",
    "README.md#start-it-by-hand",
)
def schedules(it: Examination) -> Seen:
    """Every schedule that was deployed to start runs does so."""
    states: list[str] = []

    def problem(schedule: Resource) -> str | None:
        found = it.site.found("scheduler", "get_schedule", Name=schedule.physical_id)
        state = found["State"] if found else "gone"
        states.append(f"{schedule.name.split('/')[0]} {state.lower()}")
        is_meant_to_run = schedule.properties.get("State", "ENABLED") == "ENABLED"
        return state.lower() if not found or (is_meant_to_run and state != "ENABLED") else None

    status, seen = of_each(it.stands.of("AWS::Scheduler::Schedule"), problem, "")
    return status, seen if status is Status.FAULT else ", ".join(sorted(states))


@check(
    Group.STACK,
    "watch-rule",
    f"Enable the rule, or else an execution that times out or is stopped keeps its hour. If it is gone, {REVERT}.",
    "README.md#when-a-run-fails",
)
def watch_rule(it: Examination) -> Seen:
    """The rule that sees executions die is on."""

    def problem(rule: Resource) -> str | None:
        found = it.site.found("events", "describe_rule", Name=rule.physical_id.rpartition("|")[2])
        return unlike(rule.properties.get("State", "ENABLED"), found and found["State"])

    return of_each(it.stands.of("AWS::Events::Rule"), problem, "rules enabled")


@check(
    Group.STACK,
    "ledger-expiry",
    "Switch time to live on for the ledger, on ExpiresAt: without it no row is ever deleted.",
    "docs/contract.md#plan-and-lease",
)
def ledger_expiry(it: Examination) -> Seen:
    """The ledger's old rows are deleted."""
    answer = it.site.ask("dynamodb", "describe_time_to_live", TableName=_ledger(it))
    found = answer["TimeToLiveDescription"]
    (deployed,) = [one for one in it.stands.of("AWS::DynamoDB::GlobalTable") if one.physical_id == _ledger(it)]
    expected = deployed.properties["TimeToLiveSpecification"]["AttributeName"]
    if found["TimeToLiveStatus"] in {"ENABLED", "ENABLING"}:
        attribute = found["AttributeName"]
        return (Status.OK if attribute == expected else Status.FAULT), f"by {attribute}, deployed by {expected}"
    return not_kept(it, f"time to live is {found['TimeToLiveStatus']}")


@check(
    Group.STACK,
    "ledger-recovery",
    "Switch point-in-time recovery on for the ledger: it says what was dispatched.",
    "docs/contract.md#plan-and-lease",
)
def ledger_recovery(it: Examination) -> Seen:
    """The ledger can be brought back as it was."""
    answer = it.site.ask("dynamodb", "describe_continuous_backups", TableName=_ledger(it))
    recovery = answer["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
    status = recovery.get("PointInTimeRecoveryStatus", "DISABLED")
    return (Status.OK, "point-in-time recovery is on") if status == "ENABLED" else not_kept(it, f"it is {status}")


@check(
    Group.STACK,
    "bucket-public-access",
    "Block all public access to the bucket: its objects hold bookings.",
    "docs/contract.md#task",
)
def bucket_public_access(it: Examination) -> Seen:
    """Nobody outside can be let in."""
    found = it.site.found("s3", "get_public_access_block", Bucket=_bucket(it))
    blocked = (found or {}).get("PublicAccessBlockConfiguration", {})
    names = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
    open_ = [name for name in names if not blocked.get(name)]
    return (Status.FAULT, f"off: {', '.join(open_)}") if open_ else (Status.OK, "all of it is blocked")


@check(
    Group.STACK,
    "bucket-tls",
    f"Put back the bucket policy's statement that denies what comes without TLS, or {REVERT}.",
    "docs/contract.md#task",
)
def bucket_tls(it: Examination) -> Seen:
    """The bucket refuses what comes without TLS."""
    found = it.site.found("s3", "get_bucket_policy", Bucket=_bucket(it))
    statements = json.loads(found["Policy"])["Statement"] if found else []
    denied = any(
        one["Effect"] == "Deny"
        and str(one.get("Condition", {}).get("Bool", {}).get("aws:SecureTransport", "")).lower() == "false"
        for one in statements
    )
    if denied:
        return Status.OK, "without TLS nothing is answered"
    return Status.FAULT, "no such statement in its policy"


@check(
    Group.STACK,
    "bucket-lifecycle",
    f"Put the rules back, or {REVERT}.",
    "docs/contract.md#staging",
)
def bucket_lifecycle(it: Examination) -> Seen:
    """Objects are deleted at the age that the stack gives them, and no others are."""
    (bucket,) = it.stands.of("AWS::S3::Bucket")
    deployed = bucket.properties.get("LifecycleConfiguration", {}).get("Rules", ())
    expected = {
        one["Id"]: one.get("ExpirationInDays") or one["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"]
        for one in deployed
    }
    answer = it.site.found("s3", "get_bucket_lifecycle_configuration", Bucket=_bucket(it))
    if answer is None:
        return not_kept(it, "the bucket has no rules")
    live = {
        one["ID"]: one.get("Expiration", {}).get("Days")
        or one.get("AbortIncompleteMultipartUpload", {}).get("DaysAfterInitiation")
        for one in answer["Rules"]
        if one["Status"] == "Enabled"
    }
    wrong = [name for name in expected if live.get(name) != expected[name]]
    if wrong:
        return Status.FAULT, listed("not as deployed: ", wrong)
    others = sorted(live.keys() - expected.keys())
    if others:
        return Status.WARNING, listed("rules that the stack does not know: ", others)
    return Status.OK, ", ".join(f"{name} {days} days" for name, days in expected.items())


@check(
    Group.STACK,
    "bucket-versioning",
    "Suspend versioning, or give old versions an age: what is deleted would be kept and paid for.",
    "docs/contract.md#staging",
)
def bucket_versioning(it: Examination) -> Seen:
    """The bucket keeps one version of an object."""
    status = it.site.ask("s3", "get_bucket_versioning", Bucket=_bucket(it)).get("Status", "off")
    return (Status.WARNING if status == "Enabled" else Status.OK), f"versioning is {status.lower()}"


@check(
    Group.STACK,
    "log-retention",
    "Set the log groups' retention back: without one, logs are kept and paid for without end.",
    "docs/limits.md#bounds-of-each-part",
)
def log_retention(it: Examination) -> Seen:
    """Logs are kept as long as the stack says."""
    groups = it.stands.of("AWS::Logs::LogGroup")
    prefixes = sorted({_log_prefix(one.physical_id, it.stands.name) for one in groups})
    live = {
        one["logGroupName"]: one.get("retentionInDays")
        for prefix in prefixes
        for one in it.site.every("logs", "describe_log_groups", "logGroups", logGroupNamePrefix=prefix)
    }

    def problem(group: Resource) -> str | None:
        if group.physical_id not in live:
            return "gone"
        days, expected = live[group.physical_id], group.properties.get("RetentionInDays")
        return None if days == expected else f"{days or 'no'} days, {expected} were deployed"

    return of_each(groups, problem, "log groups kept as long as deployed")


def _log_prefix(name: str, stack: str) -> str:
    before, found, _ = name.partition(stack)
    return before + found if found else name


def _ledger(it: Examination) -> str:
    return it.stands.outputs["LedgerTableName"]


def _bucket(it: Examination) -> str:
    return it.stands.outputs["TaskDataBucketName"]


@check(
    Group.ALARMS,
    "alarm-topic",
    "Subscribe whoever is on call to the topic AlarmTopicArn, and confirm it from the message that comes.",
    "README.md#when-a-run-fails",
)
def alarm_topic(it: Examination) -> Seen:
    """Somebody is told."""
    topic = it.stands.outputs["AlarmTopicArn"]
    arns = [
        one["SubscriptionArn"]
        for one in it.site.every("sns", "list_subscriptions_by_topic", "Subscriptions", TopicArn=topic)
    ]
    confirmed = sum(arn.startswith("arn:") for arn in arns)
    seen = f"subscriptions: {confirmed:,} confirmed, {len(arns) - confirmed:,} not confirmed"
    return (Status.OK if confirmed else Status.WARNING), seen


@check(
    Group.ALARMS,
    "alarms",
    f"Enable the alarm's actions. If it is gone, {REVERT}.",
    "README.md#when-a-run-fails",
)
def alarms(it: Examination) -> Seen:
    """Every alarm is there and tells its topic."""
    expected = it.stands.of("AWS::CloudWatch::Alarm")
    live = _alarms(it)

    def problem(alarm: Resource) -> str | None:
        found = live.get(alarm.physical_id)
        if found is None:
            return "gone"
        if not found["ActionsEnabled"]:
            return "its actions are disabled"
        told = set(it.stands.resolve(alarm.properties.get("AlarmActions", [])))
        return None if told <= set(found["AlarmActions"]) else "it does not tell its topic"

    return of_each(expected, problem, "alarms enabled")


@check(
    Group.ALARMS,
    "alarms-quiet",
    "Do what the alarm's description says.",
    "README.md#when-a-run-fails",
)
def alarms_quiet(it: Examination) -> Seen:
    """No alarm is on."""
    live = _alarms(it)
    loud = [
        one.name.split("/")[-1]
        for one in it.stands.of("AWS::CloudWatch::Alarm")
        if live.get(one.physical_id, {}).get("StateValue") == "ALARM"
    ]
    return (Status.WARNING, listed("on: ", loud)) if loud else (Status.OK, "none is on")


def _alarms(it: Examination) -> Mapping[str, Mapping[str, Any]]:
    names = [alarm.physical_id for alarm in it.stands.of("AWS::CloudWatch::Alarm")]
    found = it.site.every("cloudwatch", "describe_alarms", "MetricAlarms", AlarmNames=names, AlarmTypes=["MetricAlarm"])
    return {one["AlarmName"]: one for one in found}
