"""The app as a whole: outputs, the rule pack, and what synthesis needs."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from aws_cdk import App, Validations
from aws_cdk import aws_iam as iam
from cdk_nag import AwsSolutionsChecks

from infra.bundle import BundleMissingError, LambdaBundle
from infra.stage import STAGES
from tests.infra.conftest import PRODUCTION, Synthesizer
from tests.infra.template import StackTemplate
from tools.runs.overview import QUEUES
from tools.workspace import ROOT

OUTPUTS = {
    "DispatchStateMachineArn": "<WorkflowDispatch>",
    "LaneStateMachineArn": "<WorkflowLane>",
    "ReconcileStateMachineArn": "<WorkflowReconcile>",
    "CompareStateMachineArn": "<WorkflowCompare>",
    "RedoStateMachineArn": "<WorkflowRedo>",
    "BookingTableName": "<StorageBookings>",
    "BookingIndexName": "BookingDateUTC-BookingTimeUTC-index",
    "BookingDateAttribute": "BookingDateUTC",
    "BookingShards": "0",
    "LedgerTableName": "<StorageLedger>",
    "TaskDataBucketName": "<StorageTaskData>",
    "PointTaskQueueUrl": "<QueuesPointQueue>",
    "PointTaskDeadLetterQueueUrl": "<QueuesPointDeadLetters>",
    "CouponTaskQueueUrl": "<QueuesCouponQueue>",
    "CouponTaskDeadLetterQueueUrl": "<QueuesCouponDeadLetters>",
    "PaginationEnabledParameter": "<ParametersPaginationEnabled>",
    "PageSizeParameter": "<ParametersPageSize>",
    "GroupingParameter": "<ParametersGrouping>",
    "SetAsideLimitParameter": "<ParametersSetAsideLimit>",
    "StopParameter": "<ParametersStop>",
    "ScheduleName": "<ScheduleHourly>",
    "ScheduleDeadLetterQueueUrl": "<ScheduleDeadLetters>",
    "ReconcileScheduleDeadLetterQueueUrl": "<ReconcileScheduleDeadLetters>",
    "WatchDeadLetterQueueUrl": "<WatchDeadLetters>",
    "AlarmTopicArn": "<AlarmsTopic>",
    "DashboardName": "<OverviewDashboard>",
    "GrantTableName": "<WorkerGrants>",
    "WorkerFunctionName": "<WorkerGrantTasksFunction>",
}

SYNTH_SECONDS = 120


@pytest.fixture
def synthesizer(tmp_path: Path, aws_bundle: LambdaBundle, local_bundle: LambdaBundle) -> Synthesizer:
    return Synthesizer(tmp_path, {"aws": aws_bundle, "local": local_bundle})


def check(app: App) -> None:
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()


def findings(directory: Path) -> set[str]:
    report = json.loads((directory / "validation-report.json").read_text())
    return {violation["ruleName"] for plugin in report["pluginReports"] for violation in plugin["violations"]}


def test_the_outputs_have_exactly_their_keys(sandbox: StackTemplate) -> None:
    assert sandbox.outputs() == OUTPUTS


def test_every_queue_has_its_output_and_is_looked_at_by_the_status(sandbox: StackTemplate) -> None:
    told = {output: value for output, value in sandbox.outputs().items() if output.endswith("QueueUrl")}

    assert sorted(told.values()) == sorted(f"<{queue}>" for queue in sandbox.properties("AWS::SQS::Queue"))
    assert told.keys() == QUEUES.keys()


@pytest.mark.parametrize(("stage", "pagination"), [("Local", "true"), ("Sandbox", "true"), ("Production", "false")])
def test_the_parameters_carry_their_stage_and_the_stages_first_values(
    templates: dict[str, StackTemplate], stage: str, pagination: str
) -> None:
    parameters = templates[stage].properties("AWS::SSM::Parameter").values()
    assert {parameter["Name"]: parameter["Value"] for parameter in parameters} == {
        f"/BookingtimeDispatcher/{stage}/BookingDispatcherPaginationEnabled": pagination,
        f"/BookingtimeDispatcher/{stage}/BookingDispatcherPageSize": "1000",
        f"/BookingtimeDispatcher/{stage}/BookingDispatcherGrouping": "page",
        f"/BookingtimeDispatcher/{stage}/BookingDispatcherSetAsideLimit": "100",
        f"/BookingtimeDispatcher/{stage}/BookingDispatcherStop": "false",
    }


def test_two_stages_can_stand_side_by_side(local: StackTemplate, sandbox: StackTemplate) -> None:
    """The only physical names are those of parameters, log groups and the dashboard, and they carry the stage."""

    def names(template: StackTemplate) -> set[str]:
        keys = {"Name", "LogGroupName", "TableName", "BucketName", "QueueName", "TopicName", "FunctionName"}
        keys |= {"AlarmName", "DashboardName"}
        described = [one for kind in template.kinds() for one in template.properties(kind).values()]
        given = {one[key] for one in described for key in keys & one.keys()}
        return {name for name in given if not name.startswith("<")}

    assert len(names(local)) == len(names(sandbox)) == 11
    assert not names(local) & names(sandbox)


def test_the_rule_pack_finds_nothing_that_was_not_accepted_with_its_reason(
    synthesizer: Synthesizer, tmp_path: Path
) -> None:
    for stage in (STAGES["Local"], STAGES["Sandbox"], PRODUCTION):
        synthesizer.stack(stage)
    check(synthesizer.app)
    assert findings(tmp_path) == set()


def test_a_wildcard_in_a_policy_is_found(synthesizer: Synthesizer, tmp_path: Path) -> None:
    stack = synthesizer.stack(STAGES["Local"])
    role = stack.node.find_child("Functions").node.find_child("PlanRun").node.find_child("Role")
    assert isinstance(role, iam.Role)
    role.add_to_policy(iam.PolicyStatement(actions=["s3:*"], resources=["*"]))
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        check(synthesizer.app)
    assert findings(tmp_path) == {"AwsSolutions-IAM5[Action::s3:*]", "AwsSolutions-IAM5[Resource::*]"}


def test_a_missing_bundle_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(BundleMissingError, match="make synth"):
        LambdaBundle.read(tmp_path / "nothing")


@pytest.mark.parametrize("manifest", ["", "[]", '{"python": "3.12"}', '{"python": "3.12", "architecture": "mips"}'])
def test_an_unfinished_or_foreign_bundle_is_none(tmp_path: Path, manifest: str) -> None:
    (tmp_path / "bundle.json").write_text(manifest)
    with pytest.raises(BundleMissingError):
        LambdaBundle.read(tmp_path)


@pytest.fixture
def bare_path(tmp_path: Path) -> Path:
    """A PATH with Node and nothing else: no `python`, no `docker`."""
    node = shutil.which("node")
    assert node
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "node").symlink_to(node)
    return directory


def synthesize(path: Path, output: Path, context: dict[str, object]) -> subprocess.CompletedProcess[str]:
    """Run the command of cdk.json as the cdk command line does."""
    configuration = json.loads((ROOT / "cdk.json").read_text())
    environment = {
        "PATH": str(path),
        "HOME": os.environ["HOME"],  # where jsii keeps what it unpacked before
        "CDK_OUTDIR": str(output),
        "CDK_CONTEXT_JSON": json.dumps(configuration["context"] | context),
    }
    return subprocess.run(  # noqa: S603 -- the command is the repository's own
        shlex.split(configuration["app"]),
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SYNTH_SECONDS,
        check=False,
    )


@pytest.mark.usefixtures("aws_bundle")
def test_synthesis_needs_no_python_on_the_path_no_account_and_no_docker(bare_path: Path, tmp_path: Path) -> None:
    done = synthesize(bare_path, tmp_path / "out", {})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "BookingtimeDispatcherSandbox.template.json").exists()


def test_a_wrong_setting_ends_synthesis_with_one_sentence(bare_path: Path, tmp_path: Path) -> None:
    done = synthesize(bare_path, tmp_path / "out", {"stage": "Nowhere"})
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "stage: 'Nowhere' is none of Local, Sandbox, Production."
    assert "Traceback" not in done.stderr
