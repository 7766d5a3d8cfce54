"""Puts an agent on a host: finds it there, builds it there, or builds it here and sends
it.
"""

import hashlib
import os
import shlex
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from fleet.agent.build import on_host, qnx, source
from fleet.agent.build import toolchain as tc
from fleet.agent.build.elf import read_elf
from fleet.agent.build.on_controller import Builder, Built, Notify, find_first_toolchain
from fleet.agent.build.on_host import Preview, preview_agent_on_host
from fleet.agent.build.systems import SYSTEMS, VARIANTS
from fleet.errors import BuildError, DataError, ProbeError, UsageError
from fleet.model import Agent, BuildPlace, Compiler, Facts, Host, Target, Via
from fleet.remote.connection import Connection
from fleet.text import last_lines


def deploy(
    connection: Connection,
    host: Host,
    facts: Facts,
    builder: Builder,
    notify: Notify,
    benchmarks: Collection[str] | None = None,
) -> Agent:
    """Put the agent for `facts.target` on a host, unless it is there. Raises
    BuildError, DeployError.

    notify: receives a sentence about each agent that was damaged, did not build or did
    not run.
    benchmarks: the agent must have at least these; None: all.
    """
    facts, damaged = tc.hide_damaged_agents(facts)
    for name in damaged:
        notify(
            f"{host.name}: {facts.workdir}/{name} has changed since it was put there:"
            " its SHA-256 differs. It is not used; a new copy replaces it."
        )
    if host.build is BuildPlace.PREBUILT:
        return on_host.send_prebuilt(connection, host, facts)
    job = _make_job(host, facts, builder, benchmarks)
    if SYSTEMS[facts.target.os].sdp:
        return qnx.deploy(
            connection, qnx.Job(host, facts, job.all_sources, builder), notify
        )
    may_build_there = host.build is not BuildPlace.CONTROLLER
    if may_build_there and (
        agent := _deploy_finished_or_build(connection, job, notify)
    ):
        return agent
    with _prefixing_errors_with_host(host):
        built = builder.build(
            facts.target, job.all_sources, *job.controller_options, notify
        )
    return on_host.send_built(connection, host, facts, built)


@dataclass(frozen=True, slots=True)
class _Job:
    """A host that needs an agent. sources: those to compile on it; all_sources: those
    of finished agents.
    """

    host: Host
    facts: Facts
    all_sources: tc.Sources
    sources: tc.Sources
    builder: Builder

    @property
    def compiler(self) -> Compiler | None:
        """The host's compiler (version "" if unknown). If missing: None, or BuildError
        for `build: host`.
        """
        cc = self.host.toolchain.cc
        named = (
            compiler
            for compiler in self.facts.compilers
            if cc in (None, compiler.command)
        )
        compiler = next(named, Compiler(cc, "") if cc is not None else None)
        if compiler is None and self.host.build is BuildPlace.HOST:
            raise BuildError(
                f"{self.host.name}: no C compiler found on the host (looked for cc,"
                " gcc, clang). Install one there, or set `build: controller` for this"
                " host in the inventory."
            )
        return compiler

    @property
    def toolchain(self) -> tc.Toolchain:
        compiler = self.compiler or Compiler("", "")
        own = tc.host_toolchain(
            compiler.command, self.facts.target, self.host.toolchain.cflags
        )
        return replace(own, name=f"{compiler.version} on a host like this one")

    @property
    def build_id(self) -> str:
        return tc.build_id(self.sources, self.toolchain)

    @property
    def controller_options(self) -> tuple[str | None, Sequence[str]]:
        """The controller's compiler to use (None: any) and additional cflags, both from
        the inventory.
        """
        toolchain = self.host.toolchain
        return (
            toolchain.cc if self.host.build is BuildPlace.CONTROLLER else None,
            toolchain.cflags,
        )

    def agent_on_host(self) -> str | None:
        """Return the file name of an agent of this build in the host's workdir; None if
        there is none.
        """
        return tc.find_agent_of_build(self.build_id, self.facts.workdir_entries)

    def cache_name_for_like_hosts(self) -> str | None:
        """Return the cache name of the agent shared by hosts like this one; None if
        this host shares none.
        """
        # may contain `native`
        host, facts, flags = (
            self.host,
            self.facts,
            self.host.toolchain.cflags,
        )
        version = self.compiler.version if self.compiler else ""
        is_own = host.build is BuildPlace.HOST or host.via is Via.LOCAL
        if is_own or not version or not facts.libc or (flags and not facts.cpu_model):
            return None
        like_hosts = (
            facts.libc,
            version,
            (facts.cpu_model, facts.cpu_flags) if flags else (),
        )
        digest = hashlib.sha256(repr(like_hosts).encode()).hexdigest()[: tc.HASH_DIGITS]
        return f"alike-{self.build_id}-{digest}"

    def find_static_agent(self) -> Built | None:
        """Return a finished static agent; None without one, or if the inventory sets
        `build` or `cc`.
        """
        if self.host.build is BuildPlace.AUTO and self.host.toolchain.cc is None:
            flags = self.host.toolchain.cflags
            built = self.builder.find_finished(
                self.facts.target, self.all_sources, None, flags
            )
            with suppress(DataError):  # a damaged file
                return (
                    built
                    if built and read_elf(built.binary).interpreter is None
                    else None
                )
        return None

    def find_built_agent(self) -> Built | None:
        """Return a finished static agent, or one built by a host like this one; None if
        there is neither.
        """
        name = self.cache_name_for_like_hosts()
        cached = (
            self.builder.read_cached(name, self.build_id, self.toolchain)
            if name
            else None
        )
        return self.find_static_agent() or cached


def _make_job(
    host: Host, facts: Facts, builder: Builder, benchmarks: Collection[str] | None
) -> _Job:
    """Return the job. Raises ProbeError for an unsupported target, BuildError for
    `build-host` off QNX.
    """
    sources = tc.select_sources(facts.target, source.read_sources())
    if sources is None:
        targets = ", ".join(tc.list_targets(source.read_sources()))
        raise ProbeError(
            f"{host.name}: no agent for {facts.target} (only {targets}); see"
            " docs/porting.md."
        )
    if host.build is BuildPlace.BUILD_HOST and not SYSTEMS[facts.target.os].sdp:
        advice = "use `build: controller`, which needs no other machine"
        raise BuildError(
            f"{host.name}: `build: build-host` is for QNX hosts; {advice}."
        )
    return _Job(
        host,
        facts,
        sources,
        tc.select_small_agent_if_enough(sources, benchmarks),
        builder,
    )


def _deploy_finished_or_build(
    connection: Connection, job: _Job, notify: Notify
) -> Agent | None:
    """Send a finished agent, else compile on the host. If both fail, return None or
    raise BuildError.
    """
    host, facts = job.host, job.facts
    if job.agent_on_host() is None:
        finished = job.find_static_agent()
        if finished and (agent := _send_and_check(connection, job, finished, notify)):
            return agent
        if not all(compiler.version for compiler in facts.compilers):
            compilers = on_host.ask_versions(connection, facts.compilers)
            job = replace(job, facts=replace(facts, compilers=compilers))
    if job.compiler is None:
        return None
    try:
        return _build_once_for_like_hosts(connection, job, job.compiler.command, notify)
    except BuildError as err:
        if host.build is BuildPlace.HOST or host.toolchain.cc is not None:
            raise
        notify(f"{err} The agent comes from the controller instead.")
        return None


def _build_once_for_like_hosts(
    connection: Connection, job: _Job, command: str, notify: Notify
) -> Agent:
    """Use the agent that a host like this one compiled or is compiling; else compile
    and share it.
    """
    host, facts, builder = job.host, job.facts, job.builder

    def build() -> Agent:
        return on_host.build_on_host(
            connection, host, facts, job.sources, command, builder.cancellation
        )

    cache_name = job.cache_name_for_like_hosts()
    if cache_name is None or job.agent_on_host():
        return build()
    with builder.wait_turn(cache_name):
        if (built := job.find_built_agent()) is None:
            try:
                agent = build()
            except BuildError:
                if (
                    built := job.find_built_agent()
                ) is None:  # one that began later may have been faster
                    raise
            else:
                binary = connection.run(f"cat {shlex.quote(agent.path)}").stdout
                with suppress(BuildError):
                    on_host.check_fit(binary, host, facts, agent.place)
                    builder.store_in_cache(
                        cache_name, binary, agent.build, job.toolchain
                    )
                return agent
    return _send_and_check(connection, job, built, notify) or build()


def _send_and_check(
    connection: Connection, job: _Job, built: Built, notify: Notify
) -> Agent | None:
    """Send the agent and check that it runs. Return None, after removing it, if it does
    not.
    """
    agent = on_host.send_built(connection, job.host, job.facts, built)
    if tc.find_agent_of_build(built.build, job.facts.workdir_entries):
        return agent
    path = shlex.quote(agent.path)
    completed = connection.run(f"{path} --build-id </dev/null")
    if completed.stdout.strip() == built.build.encode():
        return agent
    connection.run(f"rm -f {path}")
    failure = f"exit code {completed.exit_code}: {last_lines(completed.stderr)}"
    name = job.host.name
    notify(
        f"{name}: an agent {agent.place} does not run there ({failure}); another takes"
        " its place."
    )
    return None


def preview(
    host: Host,
    facts: Facts,
    builder: Builder,
    benchmarks: Collection[str] | None = None,
) -> Preview:
    """Describe what `deploy` would do, without running a compiler. Raises the same
    errors.
    """
    facts, _ = tc.hide_damaged_agents(facts)
    if host.build is BuildPlace.PREBUILT:
        on_host.read_prebuilt(host, facts)
        return Preview(f"would be the prebuilt {host.toolchain.binary}")
    job = _make_job(host, facts, builder, benchmarks)
    if SYSTEMS[facts.target.os].sdp:
        return qnx.preview(qnx.Job(host, facts, job.all_sources, builder))
    compiler = job.compiler if host.build is not BuildPlace.CONTROLLER else None
    if compiler and (present := preview_agent_on_host(facts, job.agent_on_host())):
        return present
    target, options = facts.target, job.controller_options
    built = (
        job.find_built_agent()
        if compiler
        else builder.find_finished(target, job.all_sources, *options)
    )
    if built is None and compiler:
        others = (
            "; the first of the hosts like it builds for all"
            if job.cache_name_for_like_hosts()
            else ""
        )
        reason = (
            "the inventory says so"
            if host.build is BuildPlace.HOST
            else f"none is finished{others}"
        )
        return Preview(
            f"would be built on the host with {compiler.version or compiler.command}"
            f" ({reason})"
        )
    with _prefixing_errors_with_host(host):
        toolchain = built.toolchain if built else find_first_toolchain(target, *options)
    agent_name = tc.find_agent_of_build(
        tc.build_id(job.all_sources, toolchain), facts.workdir_entries
    )
    name = toolchain.name
    words = (
        f"would be sent, built with {name}"
        if built
        else f"would be built with {name} and sent"
    )
    return preview_agent_on_host(facts, agent_name) or Preview(words)


@contextmanager
def _prefixing_errors_with_host(host: Host) -> Iterator[None]:
    try:
        yield
    except BuildError as err:
        raise BuildError(f"{host.name}: {err}") from err


def check_entries(hosts: Sequence[Host]) -> None:
    """Raise UsageError that lists each inventory entry that cannot work, with its line
    and what to do.
    """
    if problems := [
        problem for host in hosts for problem in _list_entry_problems(host)
    ]:
        raise UsageError("\n".join(problems[:20]))


def _list_entry_problems(host: Host) -> Iterator[str]:
    binary, files = host.toolchain.binary, host.identity_files
    entry = f"{host.origin or 'inventory'}: {host.name}: "
    is_needed = host.build is BuildPlace.PREBUILT and binary is not None
    if is_needed and not os.access(_expand_home(binary or ""), os.R_OK):
        yield (
            f"{entry}`toolchain: {{binary: {binary}}}` cannot be read here; name the"
            " prebuilt agent's file."
        )
    # one half is enough for ssh-agent
    halves = [_expand_home(name) for file in files for name in (file, f"{file}.pub")]
    if (
        files
        and host.via in {Via.SSH, Via.OPENSSH}
        and not any(half.exists() for half in halves)
    ):
        names = ", ".join(files)
        yield (
            f"{entry}`identity_files`: none of {names} is there; name a key of yours,"
            " or leave it out."
        )
    system = SYSTEMS.get(host.os or "")
    if system and system.sdp and host.arch is not None and host.arch not in VARIANTS:
        target = Target(host.os or "", host.arch)
        yield (
            f"{entry}there is no compiler and no agent for {target}; correct or leave"
            " out `os` and `arch`."
        )


def _expand_home(file: str) -> Path:
    return Path(os.path.expanduser(file))  # noqa: PTH111  raises nothing for an unknown ~user
