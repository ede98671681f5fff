"""The stack: it only wires."""

from pathlib import Path

from aws_cdk import CfnOutput, Stack
from constructs import Construct

from infra.alarm_topic import AlarmTopic
from infra.bundle import LambdaBundle
from infra.dashboard import Dashboard
from infra.functions import Functions
from infra.monitoring import Monitoring
from infra.parameters import RunParameters
from infra.queues import TaskQueues
from infra.schedule import DISPATCH_MINUTE, RECONCILE_MINUTE, HourlySchedule
from infra.stage import Stage
from infra.storage import Storage
from infra.watch import ExecutionWatch
from infra.worker import Worker
from infra.workflow import Workflow


class DispatcherStack(Stack):
    """The Bookingtime Dispatcher of one stage.  The outputs are what everything else finds it by."""

    def __init__(self, scope: Construct, *, stage: Stage, bundle: LambdaBundle, definitions: Path) -> None:
        super().__init__(
            scope,
            f"BookingtimeDispatcher{stage.name}",
            description="Dispatches the booked rewards of an hour, one page at a time.",
            termination_protection=stage.keeps_data,
        )
        storage = Storage(self, "Storage", stage=stage)
        queues = TaskQueues(self, "Queues", stage=stage)
        parameters = RunParameters(self, "Parameters", stage=stage)
        alarms = AlarmTopic(self, "Alarms").topic
        functions = Functions(
            self,
            "Functions",
            stage=stage,
            bundle=bundle,
            parameters=parameters,
            storage=storage,
            queues=queues,
            alarms=alarms,
        )
        workflow = Workflow(self, "Workflow", stage=stage, definitions=definitions, functions=functions.by_name)
        watch = ExecutionWatch(
            self,
            "Watch",
            stage=stage,
            state_machines=[workflow.state_machine, workflow.redo_machine],
            recorder=functions.by_name["RecordEnd"],
        )
        schedule = HourlySchedule(
            self,
            "Schedule",
            stage=stage,
            state_machine=workflow.state_machine,
            minute=DISPATCH_MINUTE,
            description="Dispatches the bookings of the hour before.",
        )
        reconciles = HourlySchedule(
            self,
            "ReconcileSchedule",
            stage=stage,
            state_machine=workflow.reconcile_machine,
            minute=RECONCILE_MINUTE,
            description="Compares the bookings of the hour before with what was dispatched of them.",
        )
        dead_letters = {
            "PointTasks": queues.point.dead_letters,
            "CouponTasks": queues.coupon.dead_letters,
            "Schedule": schedule.dead_letters,
            "ReconcileSchedule": reconciles.dead_letters,
            "Watch": watch.dead_letters,
        }
        monitoring = Monitoring(
            self,
            "Monitoring",
            stage=stage,
            topic=alarms,
            workflow=workflow,
            queues=queues,
            dead_letters=dead_letters,
        )
        dashboard = Dashboard(
            self,
            "Overview",
            stage=stage,
            alarms=monitoring.alarms,
            workflow=workflow,
            functions=functions.by_name,
            storage=storage,
            queues=queues,
            dead_letters=dead_letters,
        )

        outputs = {
            "DispatchStateMachineArn": workflow.state_machine.state_machine_arn,
            "LaneStateMachineArn": workflow.lane_machine.state_machine_arn,
            "ReconcileStateMachineArn": workflow.reconcile_machine.state_machine_arn,
            "CompareStateMachineArn": workflow.compare_machine.state_machine_arn,
            "RedoStateMachineArn": workflow.redo_machine.state_machine_arn,
            "BookingTableName": storage.bookings.table.table_name,
            "BookingIndexName": storage.bookings.index_name,
            "BookingDateAttribute": storage.bookings.date_attribute,
            "BookingShards": str(storage.bookings.shards),
            "LedgerTableName": storage.ledger.table_name,
            "TaskDataBucketName": storage.task_data.bucket_name,
            "PointTaskQueueUrl": queues.point.queue.queue_url,
            "PointTaskDeadLetterQueueUrl": queues.point.dead_letters.queue_url,
            "CouponTaskQueueUrl": queues.coupon.queue.queue_url,
            "CouponTaskDeadLetterQueueUrl": queues.coupon.dead_letters.queue_url,
            "PaginationEnabledParameter": parameters.pagination_enabled.parameter_name,
            "PageSizeParameter": parameters.page_size.parameter_name,
            "GroupingParameter": parameters.grouping.parameter_name,
            "SetAsideLimitParameter": parameters.set_aside_limit.parameter_name,
            "StopParameter": parameters.stop.parameter_name,
            "ScheduleName": schedule.schedule.schedule_name,
            "ScheduleDeadLetterQueueUrl": schedule.dead_letters.queue_url,
            "ReconcileScheduleDeadLetterQueueUrl": reconciles.dead_letters.queue_url,
            "WatchDeadLetterQueueUrl": watch.dead_letters.queue_url,
            "AlarmTopicArn": alarms.topic_arn,
            "DashboardName": dashboard.dashboard.dashboard_name,
        }
        if stage.deploys_worker:
            worker = Worker(self, "Worker", stage=stage, bundle=bundle, storage=storage, queues=queues)
            outputs |= {
                "GrantTableName": worker.grants.table_name,
                "WorkerFunctionName": worker.function.function_name,
            }
        for key, value in outputs.items():
            CfnOutput(self, key, value=value)
