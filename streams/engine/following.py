"""A worker that follows the deployed rule. When the store has a later version, it drains and continues under that
version, in the same process and with the same Kafka clients. The store decides, not the file
(docs/changing-rules.md)."""

from collections.abc import Callable
from contextlib import suppress

import structlog
from msgspec.structs import replace

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.engine.build import build
from sluicegate.streams.engine.worker import PROBE_EVERY, Worker, WorkerDependencies
from sluicegate.streams.errors import ChangelogIncomplete, PersistenceError, RestartNeeded, SystemNotReady
from sluicegate.streams.hints import command
from sluicegate.streams.observe.report import WorkerReport
from sluicegate.streams.rules import rule_of
from sluicegate.streams.rules.changes import has_functions
from sluicegate.streams.rules.document import document
from sluicegate.streams.rules.versions import Deployed, settled, with_rule
from sluicegate.streams.versions import catalogue


def running(agent: Agent, deployed: Deployed) -> Agent:
    """The agent of the file under the deployed rule. Raises RestartNeeded if the rule needs other code than this
    process has."""
    ruled, agent = deployed.agent(deployed.number), settled(agent, deployed)
    if ruled is None or rule_of(agent).digest == deployed.digest:
        return agent
    merged = with_rule(agent, ruled)
    if merged.revision != agent.revision and has_functions(document(merged)):
        raise RestartNeeded(
            f"agent {agent.name}: version {deployed.number} of the rule needs revision {merged.revision!r}, and this "
            f"process has {agent.revision!r}; start processes of that revision, or deploy this file"
        )
    if rule_of(merged).digest != deployed.digest:
        raise RestartNeeded(
            f"agent {agent.name}: this release of Sluicegate cannot read version {deployed.number} of the rule; run "
            "the release that deployed it"
        )
    return merged


def outdated(agent: Agent, deployed: Deployed) -> str:
    """The reason why the file is not the rule that runs; empty if it is."""
    digest = rule_of(settled(agent, deployed)).digest
    if not deployed.number or digest == deployed.digest:
        return ""
    known = deployed.number_of(digest)
    file = "not deployed" if known is None else f"version {known}"
    return (
        f"agent {agent.name}: the file is {file}, deployed is version {deployed.number}: {command('deploy FILE')} "
        f"makes it version {deployed.number + 1}"
    )


class FollowingWorker:
    """Runs one worker after another, each under one version of the rule."""

    def __init__(
        self, app: App, agent: Agent, number: int, member: str, on_rule_change: str, parts: WorkerDependencies
    ) -> None:
        self._app, self._agent, self._number, self._member = app, agent, number, member
        self._on_rule_change, self._report = on_rule_change, parts.report
        self._parts = parts._replace(report=self._reported)
        self._log = structlog.get_logger().bind(agent=agent.name, worker=number)
        self._look_at = 0.0
        self._deployed = self._read()

    def run(self, stop: Callable[[], bool], drain: float = 30.0) -> int:
        """Works until `stop()` is true. Returns the exit status 0. Raises the errors of Worker.run, and RestartNeeded
        if the next version needs another process."""
        worker = self._worker()
        while True:
            worker.work(lambda: stop() or self._changed(), drain)
            if stop():
                worker.close()
                self._parts.store.close()
                return 0
            if not worker.settled:
                raise RestartNeeded(
                    f"agent {self._agent.name}: a later version of the rule is deployed, and the worker could not "
                    "drain within its time"
                )
            places, worker = worker.leave(), self._worker()
            worker.adopt(places)

    def _worker(self) -> Worker:
        deployed = self._deployed
        agent = running(self._agent, deployed)
        self._log.info("rule.runs", version=deployed.number, rule=rule_of(agent).short)
        return build(self._app, agent, self._number, self._member, self._on_rule_change, self._parts, deployed)

    def _read(self) -> Deployed:
        agents = catalogue.read(self._parts.store, self._app.name)
        return agents.get(self._agent.name, Deployed())

    def _changed(self) -> bool:
        """Whether the store has a later version. Asks the store once every PROBE_EVERY seconds."""
        now = self._parts.clock.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + PROBE_EVERY
        if self._parts.mac is not None:
            self._parts.mac.renew()
        before = self._deployed.number
        with suppress(PersistenceError, SystemNotReady, ChangelogIncomplete):
            self._deployed = self._read()
        return self._deployed.number > before

    def _reported(self, report: WorkerReport) -> object:
        if why := outdated(self._agent, self._deployed):
            reasons = [*(report.reasons if not report.ready else ()), why]
            report = replace(report, ready=False, reasons=reasons)
        return self._report(report)
