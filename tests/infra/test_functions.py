"""The Lambda functions: what they run on, what they are told, and what they may do."""

import struct
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from functions import settings
from functions.domain import budget
from infra.bundle import LambdaBundle
from tests.infra.template import StackTemplate

FUNCTION = "AWS::Lambda::Function"

SECONDS = {
    "PlanRun": budget.SMALL_FUNCTION_SECONDS,
    "TakeLeases": budget.SMALL_FUNCTION_SECONDS,
    "DispatchPage": budget.PAGE_FUNCTION_SECONDS,
    "DispatchWindow": budget.WINDOW_FUNCTION_SECONDS,
    "LayOutLanes": budget.PAGE_FUNCTION_SECONDS,
    "StagePage": budget.PAGE_FUNCTION_SECONDS,
    "FoldPages": budget.PAGE_FUNCTION_SECONDS,
    "MergeBucket": budget.PAGE_FUNCTION_SECONDS,
    "SummarizeRun": budget.SMALL_FUNCTION_SECONDS,
    "ReportFailure": budget.SMALL_FUNCTION_SECONDS,
    "RecordEnd": budget.SMALL_FUNCTION_SECONDS,
    "PlanReconcile": budget.SMALL_FUNCTION_SECONDS,
    "ReadBookings": budget.PAGE_FUNCTION_SECONDS,
    "AuditTable": budget.PAGE_FUNCTION_SECONDS,
    "ReadObjects": budget.PAGE_FUNCTION_SECONDS,
    "ReadPlans": budget.PAGE_FUNCTION_SECONDS,
    "CompareRecords": budget.PAGE_FUNCTION_SECONDS,
    "WriteReport": budget.PAGE_FUNCTION_SECONDS,
    "PlanCompare": budget.SMALL_FUNCTION_SECONDS,
    "ComparePaths": budget.WINDOW_FUNCTION_SECONDS,
    **dict.fromkeys(("PlanRedo", "CountMissing", "RedoPage"), budget.PAGE_FUNCTION_SECONDS),
    **dict.fromkeys(("AskForApproval", "CheckApproval", "RecordRepair"), budget.SMALL_FUNCTION_SECONDS),
}
MODULES = {
    "PlanRun": "plan_run",
    "TakeLeases": "take_leases",
    "DispatchPage": "dispatch_page",
    "DispatchWindow": "dispatch_window",
    "LayOutLanes": "lay_out_lanes",
    "StagePage": "stage_page",
    "FoldPages": "fold_pages",
    "MergeBucket": "merge_bucket",
    "SummarizeRun": "summarize_run",
    "ReportFailure": "report_failure",
    "RecordEnd": "record_end",
    "PlanReconcile": "plan_reconcile",
    "ReadBookings": "read_bookings",
    "AuditTable": "audit_table",
    "ReadObjects": "read_objects",
    "ReadPlans": "read_plans",
    "CompareRecords": "compare_records",
    "WriteReport": "write_report",
    "PlanCompare": "plan_compare",
    "ComparePaths": "compare_paths",
    "PlanRedo": "plan_redo",
    "CountMissing": "count_missing",
    "AskForApproval": "ask_for_approval",
    "CheckApproval": "check_approval",
    "RedoPage": "redo_page",
    "RecordRepair": "record_repair",
}
SETTINGS: dict[str, tuple[Any, ...]] = {
    "PlanRun": (settings.ParameterSettings,),
    "TakeLeases": (settings.LedgerSettings,),
    **dict.fromkeys(
        ("DispatchPage", "DispatchWindow", "LayOutLanes", "StagePage", "FoldPages", "MergeBucket"),
        (settings.LedgerSettings, settings.StagingSettings, settings.DispatchSettings),
    ),
    "SummarizeRun": (settings.LedgerSettings, settings.StagingSettings),
    "ReportFailure": (settings.LedgerSettings, settings.NotifierSettings),
    "RecordEnd": (settings.LedgerSettings, settings.NotifierSettings),
    "PlanReconcile": (settings.ReconcileSettings,),
    "ReadBookings": (settings.LedgerSettings, settings.StagingSettings, settings.BookingSettings),
    "AuditTable": (settings.LedgerSettings, settings.StagingSettings, settings.TableSettings),
    **dict.fromkeys(
        ("ReadObjects", "ReadPlans", "CompareRecords"), (settings.LedgerSettings, settings.StagingSettings)
    ),
    "WriteReport": (settings.LedgerSettings, settings.StagingSettings, settings.ReportSettings),
    "PlanCompare": (settings.ParameterSettings,),
    "ComparePaths": (settings.BookingSettings, settings.StagingSettings, settings.ReportSettings),
    "PlanRedo": (settings.StagingSettings, settings.RedoSettings),
    "CountMissing": (
        *(settings.LedgerSettings, settings.StagingSettings, settings.DispatchSettings),
        settings.ApprovalSettings,
    ),
    "AskForApproval": (settings.LedgerSettings, settings.NotifierSettings),
    "CheckApproval": (),
    "RedoPage": (settings.LedgerSettings, settings.StagingSettings, settings.DispatchSettings),
    "RecordRepair": (settings.LedgerSettings,),
}

LEDGER = "<StorageLedger.Arn>"
PARAMETER = "arn:<AWS::Partition>:ssm:<AWS::Region>:<AWS::AccountId>:parameter<Parameters{}>"
"""The name begins with a slash."""
BUCKET = "<StorageTaskData.Arn>"
READ_BOOKINGS = {("dynamodb:Query", "<StorageBookings.Arn>/index/BookingDateUTC-BookingTimeUTC-index")}
STOP = {("ssm:GetParameters", PARAMETER.format("Stop"))}
SEND = {("sqs:SendMessage", "<QueuesPointQueue.Arn>"), ("sqs:SendMessage", "<QueuesCouponQueue.Arn>")}
ASK_FOR_PLAN = {("dynamodb:GetItem", LEDGER)}
SEE_PLANS = {("dynamodb:Query", LEDGER)}
ADD_PLAN = {
    ("dynamodb:BatchGetItem", LEDGER),
    ("dynamodb:ConditionCheckItem", LEDGER),
    ("dynamodb:PutItem", LEDGER),
    ("dynamodb:UpdateItem", LEDGER),
}
WRITE_TASKS = {
    ("s3:PutObject", f"{BUCKET}/tasks/*"),
    ("s3:AbortMultipartUpload", f"{BUCKET}/tasks/*"),
    ("s3:PutObject", f"{BUCKET}/plans/*"),
    ("s3:GetObject", f"{BUCKET}/plans/*"),
}
SET_ASIDE = {("s3:PutObject", f"{BUCKET}/set-aside/*")}
WRITE_STAGED = {("s3:PutObject", f"{BUCKET}/staging/*"), ("s3:AbortMultipartUpload", f"{BUCKET}/staging/*")}
READ_STAGED = {("s3:GetObject", f"{BUCKET}/staging/*")}
DISPATCH = READ_BOOKINGS | STOP | SEND | SEE_PLANS | ADD_PLAN | WRITE_TASKS | SET_ASIDE
END_RUN = {("dynamodb:DeleteItem", LEDGER), ("dynamodb:UpdateItem", LEDGER)}
TELL = {("sns:Publish", "<AlarmsTopic>")}
RECORD_PIECE = {("dynamodb:GetItem", LEDGER), ("dynamodb:PutItem", LEDGER)}
READ_REPORTS = {("s3:GetObject", f"{BUCKET}/reports/*")}
KEEP_WHAT_FAILED = {
    (f"sqs:{action}", "<WatchDeadLetters.Arn>") for action in ("GetQueueAttributes", "GetQueueUrl", "SendMessage")
}
READ_FLAGS = {
    ("ssm:GetParameters", PARAMETER.format(name))
    for name in ("PaginationEnabled", "PageSize", "Grouping", "SetAsideLimit")
}
RIGHTS = {
    "PlanRun": READ_FLAGS,
    "TakeLeases": {
        ("dynamodb:PutItem", LEDGER),
        ("dynamodb:Query", LEDGER),
        ("dynamodb:UpdateItem", LEDGER),
    },
    "DispatchPage": ASK_FOR_PLAN | DISPATCH,
    "DispatchWindow": DISPATCH,
    "LayOutLanes": STOP | SEE_PLANS | ADD_PLAN,
    "StagePage": READ_BOOKINGS | STOP | ASK_FOR_PLAN | ADD_PLAN | WRITE_STAGED | SET_ASIDE,
    "FoldPages": STOP | ASK_FOR_PLAN | SEE_PLANS | ADD_PLAN | WRITE_STAGED | READ_STAGED,
    "MergeBucket": STOP | SEND | ASK_FOR_PLAN | SEE_PLANS | ADD_PLAN | WRITE_TASKS | READ_STAGED,
    "SummarizeRun": SEE_PLANS | END_RUN | {("s3:DeleteObject", f"{BUCKET}/staging/*")},
    "ReportFailure": SEE_PLANS | END_RUN | TELL,
    "RecordEnd": ASK_FOR_PLAN | SEE_PLANS | END_RUN | TELL | KEEP_WHAT_FAILED,
    "PlanReconcile": set(),
    "ReadBookings": READ_BOOKINGS | RECORD_PIECE | WRITE_STAGED,
    "AuditTable": RECORD_PIECE | WRITE_STAGED | {("dynamodb:Scan", "<StorageBookings.Arn>")},
    "ReadObjects": RECORD_PIECE | WRITE_STAGED | {("s3:ListBucket", BUCKET)},
    "ReadPlans": RECORD_PIECE
    | SEE_PLANS
    | WRITE_STAGED
    | {("dynamodb:BatchGetItem", LEDGER), ("s3:GetObject", f"{BUCKET}/plans/*")},
    "CompareRecords": RECORD_PIECE | SEE_PLANS | WRITE_STAGED | READ_STAGED,
    "WriteReport": SEE_PLANS
    | READ_STAGED
    | {("s3:PutObject", f"{BUCKET}/reports/*"), ("s3:AbortMultipartUpload", f"{BUCKET}/reports/*")},
    "PlanCompare": READ_FLAGS,
    "ComparePaths": READ_BOOKINGS | {("s3:PutObject", f"{BUCKET}/reports/*")},
    "PlanRedo": READ_REPORTS,
    "CountMissing": READ_BOOKINGS
    | SEE_PLANS
    | READ_REPORTS
    | {("dynamodb:BatchGetItem", LEDGER), ("s3:GetObject", f"{BUCKET}/plans/*")},
    "AskForApproval": TELL | {("dynamodb:PutItem", LEDGER)},
    "CheckApproval": set(),
    "RedoPage": ASK_FOR_PLAN | DISPATCH | READ_REPORTS,
    "RecordRepair": {("dynamodb:PutItem", LEDGER)},
}

ELF_MACHINES = {"x86_64": 62, "arm64": 183}


@pytest.fixture(scope="module")
def functions(sandbox: StackTemplate) -> dict[str, Any]:
    """Ours, by the name of their construct."""
    described = sandbox.properties(FUNCTION)
    return {
        name.removeprefix("Functions").removesuffix("Function"): function
        for name, function in described.items()
        if name.startswith("Functions")
    }


def test_there_is_a_function_for_each_task_and_the_recorder(functions: dict[str, Any]) -> None:
    assert functions.keys() == SECONDS.keys()


@pytest.mark.parametrize("name", MODULES)
def test_a_handler_is_named_by_its_path_in_the_bundle(
    functions: dict[str, Any], aws_bundle: LambdaBundle, name: str
) -> None:
    assert functions[name]["Handler"] == f"functions.handlers.{MODULES[name]}.handler"
    source = aws_bundle.directory / "functions" / "handlers" / f"{MODULES[name]}.py"
    assert "def handler(" in source.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SECONDS)
def test_a_function_has_the_time_of_the_budget_and_room_for_its_cold_start(
    functions: dict[str, Any], name: str
) -> None:
    assert functions[name]["Timeout"] == SECONDS[name]
    assert functions[name]["Timeout"] >= 60
    assert functions[name]["MemorySize"] >= 512


def test_a_page_has_more_memory_than_a_small_step_and_a_whole_window_more_than_a_page(
    functions: dict[str, Any],
) -> None:
    memory = {name: function["MemorySize"] for name, function in functions.items()}
    assert memory["PlanRun"] < memory["DispatchPage"] == 1536 < memory["DispatchWindow"]


@pytest.mark.parametrize("name", SETTINGS)
def test_the_environment_is_exactly_what_the_settings_read(functions: dict[str, Any], name: str) -> None:
    environment = functions[name]["Environment"]["Variables"]
    fixed = {
        "POWERTOOLS_SERVICE_NAME": "dispatcher",
        "POWERTOOLS_METRICS_NAMESPACE": "BookingtimeDispatcher",
        "LOG_LEVEL": "INFO",
        "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1",
    }
    assert fixed.items() <= environment.items()
    own = {variable: value for variable, value in environment.items() if variable not in fixed}
    assert own.keys() == {field.name.upper() for kind in SETTINGS[name] for field in fields(kind)}
    for kind in SETTINGS[name]:
        settings.load(kind, own)


@pytest.mark.parametrize(
    ("stage", "shards", "concurrency", "page_budget"), [("Sandbox", "0", "8", "2000"), ("Wide", "16", "40", "500")]
)
def test_a_run_s_plan_knows_what_the_deployment_allows(
    templates: dict[str, StackTemplate], stage: str, shards: str, concurrency: str, page_budget: str
) -> None:
    environment = templates[stage].properties(FUNCTION)["FunctionsPlanRunFunction"]["Environment"]["Variables"]
    assert environment["BOOKING_SHARDS"] == shards
    assert environment["LANE_CONCURRENCY"] == concurrency
    assert environment["PAGE_BUDGET"] == page_budget


@pytest.mark.parametrize(("stage", "layout"), [("Sandbox", "object"), ("Wide", "packed")])
def test_whoever_dispatches_knows_how_bodies_are_laid_out(
    templates: dict[str, StackTemplate], stage: str, layout: str
) -> None:
    functions = templates[stage].properties(FUNCTION)
    for name in ("DispatchPage", "DispatchWindow", "MergeBucket", "RedoPage"):
        assert functions[f"Functions{name}Function"]["Environment"]["Variables"]["TASK_DATA_LAYOUT"] == layout


def test_the_key_attributes_arrive_as_a_list(functions: dict[str, Any]) -> None:
    environment = functions["DispatchPage"]["Environment"]["Variables"]
    assert settings.load(settings.DispatchSettings, environment).booking_key_attributes == ("RecordId",)


@pytest.mark.parametrize("name", RIGHTS)
def test_a_role_may_do_exactly_what_its_function_does(sandbox: StackTemplate, name: str) -> None:
    log = f"<Functions{name}Log.Arn>"
    assert sandbox.rights(f"Functions{name}Role") == RIGHTS[name] | {
        ("logs:CreateLogStream", log),
        ("logs:PutLogEvents", log),
    }


def test_an_imported_table_is_read_through_its_index_but_for_its_audit(production: StackTemplate) -> None:
    arn = "arn:<AWS::Partition>:dynamodb:<AWS::Region>:<AWS::AccountId>:table/PlatformBookings"
    reading = (
        "DispatchPage",
        "DispatchWindow",
        "StagePage",
        "ReadBookings",
        "ComparePaths",
        "CountMissing",
        "RedoPage",
    )
    for name in reading:
        rights = production.rights(f"Functions{name}Role")
        assert {right for right in rights if "PlatformBookings" in right[1]} == {
            ("dynamodb:Query", f"{arn}/index/by-booking-time")
        }
    audit = production.rights("FunctionsAuditTableRole")
    assert {right for right in audit if "PlatformBookings" in right[1]} == {("dynamodb:Scan", arn)}


@pytest.mark.parametrize("name", SECONDS)
def test_a_function_writes_a_log_group_of_its_own_that_does_not_grow_for_ever(
    sandbox: StackTemplate, functions: dict[str, Any], name: str
) -> None:
    assert functions[name]["LoggingConfig"] == {"LogGroup": f"<Functions{name}Log>"}
    assert functions[name]["Role"] == f"<Functions{name}Role.Arn>"
    assert sandbox.properties("AWS::Logs::LogGroup")[f"Functions{name}Log"] == {"RetentionInDays": 90}


def test_log_retention_is_no_custom_resource(templates: dict[str, StackTemplate]) -> None:
    assert not any("Custom::LogRetention" in template.kinds() for template in templates.values())


def test_all_functions_run_from_one_bundle(functions: dict[str, Any]) -> None:
    assert len({function["Code"]["S3Key"] for function in functions.values()}) == 1


@pytest.mark.parametrize("stage", ["Sandbox", "Local"])
def test_the_compiled_libraries_of_the_bundle_fit_runtime_and_architecture(
    templates: dict[str, StackTemplate], aws_bundle: LambdaBundle, local_bundle: LambdaBundle, stage: str
) -> None:
    bundle = {"Sandbox": aws_bundle, "Local": local_bundle}[stage]
    function = templates[stage].properties(FUNCTION)["FunctionsDispatchPageFunction"]
    tag = function["Runtime"].replace("python", "cpython-").replace(".", "")
    [architecture] = function["Architectures"]

    libraries = sorted(bundle.directory.rglob("*.so"))
    assert [library.name.split(".")[0] for library in libraries] == ["_pydantic_core"]
    for library in libraries:
        assert library.name.split(".")[1].startswith(f"{tag}-")
        if stage == "Sandbox":
            assert elf_machine(library) == ELF_MACHINES[architecture]


def test_the_compiled_modules_of_the_bundle_are_of_the_runtime(
    functions: dict[str, Any], aws_bundle: LambdaBundle
) -> None:
    tag = functions["DispatchPage"]["Runtime"].replace("python", "cpython-").replace(".", "")
    compiled = list(aws_bundle.directory.rglob("*.pyc"))
    assert {module.name.split(".")[-2] for module in compiled} == {tag}
    assert len(compiled) == len(list(aws_bundle.directory.rglob("*.py")))


def elf_machine(library: Path) -> int:
    """The processor that a Linux library was built for, from its header."""
    header = library.read_bytes()[:20]
    assert header.startswith(b"\x7fELF")
    machine: int = struct.unpack_from("<H", header, 18)[0]
    return machine
