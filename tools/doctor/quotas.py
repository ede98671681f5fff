"""What the account allows at once."""

from typing import Final

from tools.doctor.examination import Examination, Group, NotChecked, Seen, Status, check

READS_OF_A_LANE: Final = 2.0
"""Parameter reads a second: one a page, and a page takes about half a second."""
PARAMETER_READS: Final = 40
"""A second, of the whole account, unless its higher throughput is switched on."""


@check(
    Group.QUOTAS,
    "lambda-concurrency",
    "Ask for a higher quota of concurrent executions (Service Quotas, AWS Lambda), or lower laneConcurrency.",
    "docs/limits.md#bounds-of-each-part",
)
def lambda_concurrency(it: Examination) -> Seen:
    """The account runs as many functions at once as the lanes and the worker ask for."""
    limit = it.site.ask("lambda", "get_account_settings")["AccountLimit"]
    unreserved, needed = limit["UnreservedConcurrentExecutions"], it.lanes + _worker_concurrency(it)
    seen = f"{unreserved:,} of {limit['ConcurrentExecutions']:,} not reserved; up to {needed:,} are needed here"
    return (Status.WARNING if unreserved <= needed else Status.OK), seen


@check(
    Group.QUOTAS,
    "parameter-throughput",
    "Switch on the Parameter Store's higher throughput, which is paid for, or lower laneConcurrency.",
    "docs/limits.md#bounds-of-each-part",
)
def parameter_throughput(it: Examination) -> Seen:
    """The kill switch can be read before each page of all lanes."""
    answer = it.site.ask("ssm", "get_service_setting", SettingId="/ssm/parameter-store/high-throughput-enabled")
    if answer["ServiceSetting"]["SettingValue"] == "true":
        return Status.OK, "higher throughput is on"
    needed = it.lanes * READS_OF_A_LANE
    seen = f"{PARAMETER_READS} reads a second for the account; {it.lanes} lanes take about {needed:.0f}"
    return (Status.WARNING if needed > PARAMETER_READS * 3 / 4 else Status.OK), seen


@check(
    Group.QUOTAS,
    "execution-starts",
    "Ask for a higher quota (Service Quotas, AWS Step Functions), or use fewer slices.",
    "docs/limits.md#bounds-of-each-part",
)
def execution_starts(it: Examination) -> Seen:
    """As many executions can be started at once as a run has lanes side by side."""
    if it.site.embedded:
        raise NotChecked("the embedded AWS has no such quotas")
    quotas = it.site.every("service-quotas", "list_service_quotas", "Quotas", ServiceCode="states")
    starts = {one["QuotaName"]: one["Value"] for one in quotas if "StartExecution" in one["QuotaName"]}
    if not starts:
        raise NotChecked("the account names no quota of StartExecution")
    seen = ", ".join(f"{name}: {value:,.0f}" for name, value in sorted(starts.items()))
    return (Status.WARNING if min(starts.values()) < it.lanes else Status.OK), seen


def _worker_concurrency(it: Examination) -> int:
    sources = it.stack.of("AWS::Lambda::EventSourceMapping") if it.stack else ()
    return sum(
        one.properties.get("ScalingConfig", {}).get("MaximumConcurrency", 0)
        for one in sources
        if one.properties.get("Enabled", True)
    )
