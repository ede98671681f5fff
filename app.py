"""The CDK app: `cdk synth|deploy|destroy -c stage=Local|Sandbox|Production`.

Other context settings (see `infra/stage.py`): `bookingTableName`, `bookingIndexName`, `bookingKeyAttributes`
import a bookings table; `bookingDateAttribute`, `bookingShards` say what its index is partitioned by;
`laneConcurrency`, `pageBudget` bound what runs side by side and how long one execution goes on;
`stillWaitingHours` says when a reconcile calls a dispatched booking one that waits too long;
`redoWithoutApproval` says how many records may be redone without a second person;
`taskExpiryDays` gives the tasks' objects an age; `taskDataLayout` lays them out (`object` or `packed`);
`tracing` traces executions;
`runbookUrl` is the address of docs/operate.md, which every alarm links to.
"""

import sys
from pathlib import Path

from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks

from infra.bundle import BundleMissingError, LambdaBundle
from infra.stack import DispatcherStack
from infra.stage import SettingError, Stage

ROOT = Path(__file__).resolve().parent


def main() -> None:
    """Synthesize the stack of one stage; a finding of the rule pack that nobody accepted fails it."""
    app = App()
    try:
        stage = Stage.from_context(app.node.try_get_context)
        bundle = LambdaBundle.read(ROOT / ".local" / "bundle" / stage.bundle)
    except (SettingError, BundleMissingError) as error:
        sys.exit(str(error))
    DispatcherStack(app, stage=stage, bundle=bundle, definitions=ROOT / "statemachine")
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()


if __name__ == "__main__":
    main()
