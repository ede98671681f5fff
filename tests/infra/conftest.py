"""One CDK app for the session, with a stack for each stage and for each kind of imported table."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from aws_cdk import App

from functions.domain.pack import Layout
from infra.bundle import LambdaBundle
from infra.stack import DispatcherStack
from infra.stage import STAGES, ExistingBookings, Stage
from tests.infra.template import StackTemplate
from tools.bundle import aws_target, build, local_target
from tools.workspace import ROOT

DEFINITIONS = ROOT / "statemachine"

IMPORTED = ExistingBookings(
    table_name="PlatformBookings", index_name="by-booking-time", key_attributes=("TenantId", "BookingId")
)
PRODUCTION = replace(STAGES["Production"], existing_bookings=IMPORTED)


@pytest.fixture(scope="session")
def aws_bundle() -> LambdaBundle:
    return LambdaBundle.read(build(aws_target()))


@pytest.fixture(scope="session")
def local_bundle() -> LambdaBundle:
    return LambdaBundle.read(build(local_target()))


class Synthesizer:
    """One app with the context of cdk.json, and stacks of our own choice."""

    def __init__(self, directory: Path, bundles: dict[str, LambdaBundle]) -> None:
        context = json.loads((ROOT / "cdk.json").read_text())["context"]
        # The bundle is fingerprinted, not copied.
        self.app = App(outdir=str(directory), context={**context, "aws:cdk:disable-asset-staging": True})
        self._bundles = bundles

    def stack(self, stage: Stage) -> DispatcherStack:
        bundle = self._bundles[stage.bundle]
        return DispatcherStack(self.app, stage=stage, bundle=bundle, definitions=DEFINITIONS)


@pytest.fixture(scope="session")
def templates(
    tmp_path_factory: pytest.TempPathFactory, aws_bundle: LambdaBundle, local_bundle: LambdaBundle
) -> dict[str, StackTemplate]:
    """By stage; the others are a sandbox: `Wide` for large hours, and the rest with one setting each."""
    synthesizer = Synthesizer(tmp_path_factory.mktemp("cdk"), {"aws": aws_bundle, "local": local_bundle})
    sandbox = STAGES["Sandbox"]
    one_key = replace(IMPORTED, key_attributes=("BookingId",))
    stages = [
        STAGES["Local"],
        sandbox,
        PRODUCTION,
        replace(sandbox, name="OneKey", existing_bookings=one_key),
        replace(sandbox, name="Expiring", task_expiry_days=30),
        replace(sandbox, name="Traced", traced=True),
        replace(sandbox, name="Linked", runbook_url="https://example.org/operate.md"),
        replace(
            sandbox,
            name="Wide",
            booking_date_attribute="BookingDateShard",
            booking_shards=16,
            lane_concurrency=40,
            page_budget=500,
            task_data_layout=Layout.PACKED,
        ),
    ]
    stacks = {stage.name: synthesizer.stack(stage) for stage in stages}
    assembly = synthesizer.app.synth()
    return {
        name: StackTemplate(assembly.get_stack_by_name(stack.stack_name).template) for name, stack in stacks.items()
    }


@pytest.fixture(scope="session")
def sandbox(templates: dict[str, StackTemplate]) -> StackTemplate:
    return templates["Sandbox"]


@pytest.fixture(scope="session")
def production(templates: dict[str, StackTemplate]) -> StackTemplate:
    return templates["Production"]


@pytest.fixture(scope="session")
def local(templates: dict[str, StackTemplate]) -> StackTemplate:
    return templates["Local"]
