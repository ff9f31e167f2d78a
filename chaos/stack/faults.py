"""What each kind of fault does to the running stack, and how it is undone."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

from chaos.stack.disasters import drop_slot, pass_retention, restore
from chaos.stack.disks import SmallDisk
from chaos.stack.doubles import Doubles
from chaos.stack.plan import Fault
from chaos.stack.running import NORMAL, Running
from ops.embedded.kafka_cluster import ClusterNode
from ops.embedded.server import Server
from ops.engine.scenario import Scenario
from ops.errors import StartFailed

Undo = Callable[[], None]
GUEST: Final = "worker-3"
"""The worker that joins and leaves again."""
SLOW_DATABASE_S: Final = 0.03
SLOW_ENGINE_S: Final = 0.15
"""Each way."""


class CanNotNow(Exception):
    """The fault can't be made at this moment; the message tells why."""


class Faults:
    """Makes faults; one thread."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._doubles = Doubles(running.servers.cluster.bootstrap, running.source.topic, running.recorder)
        self._engine: list[Scenario] = []
        self._kinds: dict[str, Callable[[Fault], Undo | None]] = {
            "kill": lambda fault: self._signal(fault, signal.SIGKILL),
            "term": lambda fault: self._signal(fault, signal.SIGTERM),
            "stop": self._stop,
            "join": self._join,
            "leave": self._leave,
            "broker-leader": self._leader,
            "controller": self._controller,
            "brokers": self._brokers,
            "postgres-kill": self._postgres_kill,
            "postgres-stop": self._postgres_stop,
            "restore": lambda fault: restore(running),
            "slot": lambda fault: drop_slot(running),
            "retention": lambda fault: pass_retention(running),
            "broker-disk": lambda fault: self._fill(running.servers.broker_disk),
            "postgres-disk": lambda fault: self._fill(running.servers.postgres_disk),
            "clock": self._clock,
            "cdc-twice": lambda fault: self._doubles.send("twice"),
            "cdc-late": lambda fault: self._doubles.send("late"),
            "cdc-disorder": lambda fault: self._doubles.send("disorder"),
            "engine-hang": lambda fault: self._treat(Scenario(mode="hang")),
            "engine-5xx": lambda fault: self._treat(Scenario(mode="fail", status=503, delay_ms=20)),
            "engine-drop": lambda fault: self._treat(Scenario(mode="drop", times=1, delay_ms=60)),
            "slow": self._slow,
        }

    def make(self, fault: Fault) -> Undo | None:
        """Make a fault; gives what undoes it, None: nothing has to be. Raises CanNotNow."""
        return self._kinds[fault.kind](fault)

    def close(self) -> None:
        """Let what they hold go."""
        self._doubles.close()

    # -- processes
    def _signal(self, fault: Fault, number: signal.Signals) -> None:
        if not self._running.processes.signal(fault.target, number):
            raise CanNotNow(f"{fault.target} doesn't run")

    def _stop(self, fault: Fault) -> Undo:
        self._signal(fault, signal.SIGSTOP)
        pid = self._pid(fault.target)

        def wake() -> None:
            if self._pid(fault.target) == pid:
                self._running.processes.signal(fault.target, signal.SIGCONT)

        return wake

    def _join(self, fault: Fault) -> Undo:
        processes = self._running.processes
        processes.own[GUEST] = self._running.clocks.environment(GUEST)
        processes.start(GUEST)
        return lambda: processes.send_away(GUEST)

    def _leave(self, fault: Fault) -> Undo:
        processes = self._running.processes
        processes.send_away(fault.target)
        return lambda: processes.start(fault.target)

    def _pid(self, name: str) -> int | None:
        process = self._running.processes.members[name].process
        return process.pid if process is not None else None

    # -- servers
    def _leader(self, fault: Fault) -> Undo:
        leader = self._running.servers.leader_of(self._running.source.topic)
        if leader is None:
            raise CanNotNow("nobody leads")
        return self._kill_node(self._running.servers.cluster.node(leader))

    def _controller(self, fault: Fault) -> Undo:
        try:
            node = self._running.servers.cluster.controller()
        except StartFailed as error:
            raise CanNotNow(str(error)) from error
        return self._kill_node(node)

    def _kill_node(self, node: ClusterNode) -> Undo:
        if node.pid is None:
            raise CanNotNow(f"broker {node.number} is away")
        return self._kill(node)

    def _brokers(self, fault: Fault) -> Undo:
        return self._kill(*self._running.servers.cluster.nodes)

    def _postgres_kill(self, fault: Fault) -> Undo:
        return self._kill(self._running.servers.postgres)

    def _kill(self, *servers: Server) -> Undo:
        self._running.servers.take(*servers)
        for one in servers:
            one.kill()
        return self._running.servers.give_back

    def _postgres_stop(self, fault: Fault) -> Undo:
        self._running.servers.take(self._running.servers.postgres)
        self._running.servers.postgres.stop()
        return self._running.servers.give_back

    def _fill(self, disk: SmallDisk) -> Undo:
        disk.fill()
        return disk.free

    # -- the clock, the network, the engine
    def _clock(self, fault: Fault) -> Undo:
        self._running.clocks.step(fault.target, fault.argument)
        return lambda: self._running.clocks.step(fault.target, 0.0)

    def _slow(self, fault: Fault) -> Undo:
        servers = self._running.servers
        servers.network.delay_s, servers.engine_network.delay_s = SLOW_DATABASE_S, SLOW_ENGINE_S
        servers.netem.slow()

        def fast() -> None:
            servers.network.delay_s = servers.engine_network.delay_s = 0.0
            servers.netem.fast()

        return fast

    def _treat(self, scenario: Scenario) -> Undo:
        """The newest storm counts; when it is over, the one before it, if that still lasts."""
        engine = self._running.servers.engine
        self._engine.append(scenario)
        engine.treat(scenario)

        def over() -> None:
            self._engine.remove(scenario)
            engine.treat(self._engine[-1] if self._engine else NORMAL)

        return over
