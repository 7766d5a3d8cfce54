"""Asks an agent what a plan costs: the one on the host, or one of the controller's own."""

import os
import shlex
import subprocess
import threading
from dataclasses import replace
from typing import BinaryIO

from fleet.agent.build import source
from fleet.agent.build import toolchain as tc
from fleet.agent.build.on_controller import Builder, controller_target
from fleet.agent.wire.forecast import read_forecast, render_machine
from fleet.agent.wire.line import PREFIX, REFUSED, WireError
from fleet.errors import AgentError, BuildError, RefusedError, UsageError
from fleet.model import Facts, Host, Plan
from fleet.plan.forecast import Forecast
from fleet.plan.options import agent_arguments
from fleet.remote.connection import Connection

TIMEOUT_S = 60.0
_OPTIONS = 2  # the exit code of REFUSED for options


class Forecaster:
    """Safe from many threads. The controller's own agent is made once, when it is needed, in memory only."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self._guard = threading.Lock()
        self._agent: BinaryIO | None = None
        self._cache: dict[tuple[str, ...], Forecast] = {}  # of plans and machines, also without their memory

    def from_host(self, connection: Connection, host: Host, path: str, plan: Plan) -> Forecast:
        """Ask the agent on the host. Raises UsageError, RefusedError in its words."""
        command = shlex.join([path, "--forecast", *agent_arguments(plan)])
        done = connection.run(f"{command} </dev/null", timeout_s=TIMEOUT_S)
        return _parse_answer(host, plan, done.exit_code, done.stdout, done.stderr)

    def from_facts(self, host: Host, facts: Facts, plan: Plan, *, build: bool = True) -> Forecast | None:
        """Ask an agent of our own, as `on_host`. build: make it if need be, or BuildError; else None."""
        nodes = tuple(replace(node, free_bytes=None) for node in facts.nodes)
        comparable = replace(facts, memory_available_bytes=None, nodes=nodes)
        named = () if plan.cpus is None or isinstance(plan.cpus, str) else plan.cpus
        asked, machine = agent_arguments(replace(plan, seed=0)), render_machine(facts, named)
        lines, same = ((lines, *asked) for lines in (render_machine(comparable, named), machine))
        if (cached := self._cache.get(same)) is not None:
            return cached
        if (cached := self._cache.get(lines)) is not None and not cached.bytes:
            return cached
        agent = self._own_agent(build=build)
        if agent is None:
            return None
        program = f"/proc/self/fd/{agent.fileno()}"
        try:
            done = subprocess.run(
                [program, "--forecast", "--facts=/proc/self/fd/0", *agent_arguments(plan)],
                input=machine.encode(),
                capture_output=True,
                pass_fds=(agent.fileno(),),
                timeout=TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as err:
            raise BuildError(f"the controller's own agent does not run: {err}") from err
        forecast = _parse_answer(host, plan, done.returncode, done.stdout, done.stderr)
        self._cache |= {lines: forecast, same: forecast}
        return forecast

    def _own_agent(self, *, build: bool) -> BinaryIO | None:
        with self._guard:
            if self._agent is None:
                target = controller_target()
                sources = tc.select_sources(target, source.read_sources())
                if sources is None:
                    raise BuildError(f"there is no agent for the controller, {target}")
                built = (self.builder.build if build else self.builder.find_finished)(target, sources)
                if built is None:
                    return None
                agent = os.fdopen(os.memfd_create("fleet-agent"), "wb")
                agent.write(built.binary)
                agent.flush()
                self._agent = agent
            return self._agent


def _parse_answer(host: Host, plan: Plan, exit_code: int, stdout: bytes, stderr: bytes) -> Forecast:
    words = stderr.decode("utf-8", "replace").strip().rpartition(PREFIX)[2]
    if exit_code == _OPTIONS:
        raise UsageError(f"{host.name}: {words}.")
    if exit_code in REFUSED:
        raise RefusedError(f"{host.name}: {words}.")
    try:
        return read_forecast(stdout, plan.benchmarks)
    except WireError as err:
        raise AgentError(f"{host.name}: no forecast (exit code {exit_code}): {words or err}") from err
