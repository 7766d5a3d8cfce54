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
    benchmarks: what the agent must be able to measure; None stands for all.
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
        qnx_job = qnx.Job(host, facts, job.all_sources, builder)
        return qnx.deploy(connection, qnx_job, notify)
    if host.build is not BuildPlace.CONTROLLER:
        agent = _deploy_finished_or_build(connection, job, notify)
        if agent is not None:
            return agent
    compiler, cflags = job.controller_options
    with _prefixing_errors_with_host(host):
        built = builder.build(
            facts.target, job.all_sources, compiler, extra=cflags, notify=notify
        )
    return on_host.send_built(connection, host, facts, built)


@dataclass(frozen=True, slots=True)
class _Job:
    """A host that needs an agent.

    An agent is finished if nothing is to be compiled for it: fleet ships it, or it lies
    in the controller's cache.
    """

    host: Host
    facts: Facts
    all_sources: tc.Sources  # of an agent that the controller builds or has
    sources: tc.Sources  # of one that the host builds, with fewer benchmarks perhaps
    builder: Builder

    @property
    def compiler(self) -> Compiler | None:
        """The compiler that the inventory names, or else the first that the probe found
        on the host. Its version is "" if unknown.

        None if the host has no compiler. For `build: host`, BuildError is raised
        instead.
        """
        cc = self.host.toolchain.cc
        for compiler in self.facts.compilers:
            if cc in (None, compiler.command):
                return compiler
        if cc is not None:
            return Compiler(cc, "")
        if self.host.build is BuildPlace.HOST:
            raise BuildError(
                f"{self.host.name}: no C compiler found on the host (looked for cc,"
                " gcc, clang). Install one there, or set `build: controller` for this"
                " host in the inventory."
            )
        return None

    @property
    def toolchain(self) -> tc.Toolchain:
        """The host's compiler and its flags, named for other hosts like this one."""
        compiler = self.compiler or Compiler("", "")
        own = tc.host_toolchain(
            compiler.command, self.facts.target, self.host.toolchain.cflags
        )
        return replace(own, name=f"{compiler.version} on a host like this one")

    @property
    def build_id(self) -> str:
        """The build ID of the agent that the host's compiler makes."""
        return tc.build_id(self.sources, self.toolchain)

    @property
    def controller_options(self) -> tuple[str | None, Sequence[str]]:
        """The controller's compiler to use (None: any) and additional cflags, both from
        the inventory.
        """
        toolchain = self.host.toolchain
        if self.host.build is BuildPlace.CONTROLLER:
            return toolchain.cc, toolchain.cflags
        return None, toolchain.cflags

    def agent_on_host(self) -> str | None:
        """Return the file name of the agent in the host's workdir that its own compiler
        made; None if there is none.
        """
        return tc.find_agent_of_build(self.build_id, self.facts.workdir_entries)

    def cache_name_for_like_hosts(self) -> str | None:
        """Return the name in the cache, "alike-BUILD-DIGEST", of the agent shared by
        hosts like this one; None if this host shares no agent. Hosts are alike if they
        have the same libc and compiler and, where the inventory adds cflags, the same
        model and flags of CPU.
        """
        if self.host.build is BuildPlace.HOST or self.host.via is Via.LOCAL:
            return None
        facts = self.facts
        version = self.compiler.version if self.compiler else ""
        if not version or not facts.libc:
            return None
        cpu: tuple[object, ...] = ()
        # flags such as -march=native make agents that other CPUs cannot run
        if self.host.toolchain.cflags:
            if not facts.cpu_model:
                return None
            cpu = (facts.cpu_model, facts.cpu_flags)
        common_to_like_hosts = repr((facts.libc, version, cpu))
        digest = hashlib.sha256(common_to_like_hosts.encode()).hexdigest()
        return f"alike-{self.build_id}-{digest[: tc.HASH_DIGITS]}"

    def shares_agent_with_like_hosts(self) -> bool:
        """Report whether an agent that this host compiles is sent to others like it."""
        return self.cache_name_for_like_hosts() is not None

    def find_static_agent(self) -> Built | None:
        """Return a finished static agent, which any host of its target can run; None
        without one. Also None if the inventory sets `build` or `cc`: then the user
        wants an agent from there.
        """
        toolchain = self.host.toolchain
        if self.host.build is not BuildPlace.AUTO or toolchain.cc is not None:
            return None
        built = self.builder.find_finished(
            self.facts.target, self.all_sources, extra=toolchain.cflags
        )
        if built is None:
            return None
        with suppress(DataError):  # a damaged file counts as none
            if read_elf(built.binary).is_static:
                return built
        return None

    def find_built_agent(self) -> Built | None:
        """Return a finished static agent, or one built by a host like this one; None if
        there is neither.
        """
        static_agent = self.find_static_agent()
        if static_agent is not None:
            return static_agent
        name = self.cache_name_for_like_hosts()
        if name is None:
            return None
        return self.builder.read_cached(name, self.build_id, self.toolchain)


def _make_job(
    host: Host, facts: Facts, builder: Builder, benchmarks: Collection[str] | None
) -> _Job:
    """Return the job of putting an agent with these benchmarks, None for all, on the
    host. Raises ProbeError for a target that no agent supports, and BuildError for
    `build: build-host` if the host does not run QNX.
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
    to_compile = tc.select_small_agent_if_enough(sources, benchmarks)
    return _Job(host, facts, sources, to_compile, builder)


def _deploy_finished_or_build(
    connection: Connection, job: _Job, notify: Notify
) -> Agent | None:
    """Keep the agent that the host compiled before. If there is none, send a finished
    one. If there is none either, or it does not run, compile on the host.

    Return None if the controller is to build the agent: the host has no compiler, or
    its compiler fails. Raises BuildError instead if the inventory asks for a build on
    the host, or for a compiler there.
    """
    if job.agent_on_host() is not None and job.compiler is not None:
        # compiles nothing, as the agent is present
        return _build_unless_present(connection, job, job.compiler.command)
    agent = _send_static_agent(connection, job, notify)
    if agent is not None:
        return agent
    job = _ask_compiler_versions(connection, job)
    if job.compiler is None:
        return None
    try:
        return _build_once_for_like_hosts(connection, job, job.compiler.command, notify)
    except BuildError as err:
        is_named_by_user = job.host.toolchain.cc is not None
        if is_named_by_user or job.host.build is BuildPlace.HOST:
            raise
        notify(f"{err} The agent comes from the controller instead.")
        return None


def _send_static_agent(
    connection: Connection, job: _Job, notify: Notify
) -> Agent | None:
    """Send a finished static agent; return None if there is none, or if it does not
    run.
    """
    finished = job.find_static_agent()
    if finished is None:
        return None
    return _send_and_check(connection, job, finished, notify)


def _ask_compiler_versions(connection: Connection, job: _Job) -> _Job:
    """Return the job with the versions of the host's compilers; ask for them unless
    they are known.
    """
    compilers = job.facts.compilers
    if all(compiler.version for compiler in compilers):
        return job
    answering = on_host.ask_versions(connection, compilers)
    return replace(job, facts=replace(job.facts, compilers=answering))


def _build_once_for_like_hosts(
    connection: Connection, job: _Job, command: str, notify: Notify
) -> Agent:
    """Use the agent that a host like this one compiled or is compiling; else compile
    the agent on this host and share it. If the shared agent does not run on this host,
    compile another for this host alone. command: the compiler's.
    """
    cache_name = job.cache_name_for_like_hosts()
    if cache_name is None or job.agent_on_host() is not None:
        return _build_unless_present(connection, job, command)
    with job.builder.wait_turn(cache_name):
        shared = job.find_built_agent()
        if shared is None:
            try:
                return _build_and_share(connection, job, command, cache_name)
            except BuildError:
                # A host whose wait for its turn took too long compiled beside us. If it
                # succeeded, its agent is there now.
                shared = job.find_built_agent()
                if shared is None:
                    raise
    agent = _send_and_check(connection, job, shared, notify)
    if agent is None:  # the shared agent does not run on this host
        agent = _build_unless_present(connection, job, command)
    return agent


def _build_and_share(
    connection: Connection, job: _Job, command: str, cache_name: str
) -> Agent:
    """Compile the agent on the host, then keep it in the cache for hosts like this one.
    command: the compiler's.
    """
    agent = _build_unless_present(connection, job, command)
    _share_with_like_hosts(connection, job, agent, cache_name)
    return agent


def _build_unless_present(connection: Connection, job: _Job, command: str) -> Agent:
    return on_host.build_on_host(
        connection, job.host, job.facts, job.sources, command, job.builder.cancellation
    )


def _share_with_like_hosts(
    connection: Connection, job: _Job, agent: Agent, cache_name: str
) -> None:
    """Fetch an agent just built on the host into the cache, unless hosts like this one
    could not run it.
    """
    path = shlex.quote(agent.path)
    binary = connection.run(f"cat {path}").stdout
    with suppress(BuildError):
        on_host.check_fit(binary, job.host, job.facts, agent.place)
        job.builder.store_in_cache(cache_name, binary, agent.build, job.toolchain)


def _send_and_check(
    connection: Connection, job: _Job, built: Built, notify: Notify
) -> Agent | None:
    """Send the agent and check that it runs; remove it and return None if it does not.
    An agent that the host had before is not checked again.
    """
    agent = on_host.send_built(connection, job.host, job.facts, built)
    if tc.find_agent_of_build(built.build, job.facts.workdir_entries) is not None:
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
    if host.build is BuildPlace.CONTROLLER or job.compiler is None:
        return _preview_from_controller(job)
    return _preview_with_compiler_of_host(job, job.compiler)


def _preview_from_controller(job: _Job) -> Preview:
    """Describe what `deploy` would do with an agent that a compiler on the controller
    built or would build. Raises BuildError.
    """
    compiler, cflags = job.controller_options
    built = job.builder.find_finished(
        job.facts.target, job.all_sources, compiler, extra=cflags
    )
    if built is not None:
        return _preview_sending(job, built)
    with _prefixing_errors_with_host(job.host):
        toolchain = find_first_toolchain(job.facts.target, compiler, cflags)
    present = _preview_if_agent_on_host(job, toolchain)
    return present or Preview(f"would be built with {toolchain.name} and sent")


def _preview_with_compiler_of_host(job: _Job, compiler: Compiler) -> Preview:
    """Describe what `deploy` would do for a host that has a compiler: keep the agent
    that is there, or send a finished one, or build one there.
    """
    present = preview_agent_on_host(job.facts, job.agent_on_host())
    if present is not None:
        return present
    built = job.find_built_agent()
    if built is not None:
        return _preview_sending(job, built)
    if job.host.build is BuildPlace.HOST:
        reason = "the inventory says so"
    elif job.shares_agent_with_like_hosts():
        reason = "none is finished; the first of the hosts like it builds for all"
    else:
        reason = "none is finished"
    name = compiler.version or compiler.command
    return Preview(f"would be built on the host with {name} ({reason})")


def _preview_sending(job: _Job, built: Built) -> Preview:
    """Describe the sending of a finished agent, or that the host has it already."""
    present = _preview_if_agent_on_host(job, built.toolchain)
    return present or Preview(f"would be sent, built with {built.toolchain.name}")


def _preview_if_agent_on_host(job: _Job, toolchain: tc.Toolchain) -> Preview | None:
    """Return the preview for an agent of this toolchain that the host has already; None
    if the host lacks such an agent.
    """
    build = tc.build_id(job.all_sources, toolchain)
    agent_name = tc.find_agent_of_build(build, job.facts.workdir_entries)
    return preview_agent_on_host(job.facts, agent_name)


@contextmanager
def _prefixing_errors_with_host(host: Host) -> Iterator[None]:
    try:
        yield
    except BuildError as err:
        raise BuildError(f"{host.name}: {err}") from err


def check_entries(hosts: Sequence[Host]) -> None:
    """Raise UsageError that lists the inventory entries that cannot work, each with its
    line and what to do; at most 20 problems.
    """
    problems = list[str]()
    for host in hosts:
        problems += _list_entry_problems(host)
    if problems:
        raise UsageError("\n".join(problems[:20]))


def _list_entry_problems(host: Host) -> Iterator[str]:
    """Yield a line for each part of an inventory entry that cannot work."""
    problems = (
        _find_binary_problem(host),
        _find_key_problem(host),
        _find_target_problem(host),
    )
    for problem in problems:
        if problem is not None:
            yield f"{host.origin or 'inventory'}: {host.name}: {problem}"


def _find_binary_problem(host: Host) -> str | None:
    """Say that the entry's prebuilt agent cannot be read. Return None if it can be
    read, or if the entry needs no prebuilt agent.
    """
    binary = host.toolchain.binary
    if host.build is not BuildPlace.PREBUILT or binary is None:
        return None
    if os.access(_expand_home(binary), os.R_OK):
        return None
    return (
        f"`toolchain: {{binary: {binary}}}` cannot be read here; name the prebuilt"
        " agent's file."
    )


def _find_key_problem(host: Host) -> str | None:
    """Say that none of an SSH host's key files is there. Return None if a file is
    there, or if the entry names no files.
    """
    files = host.identity_files
    if not files or host.via not in {Via.SSH, Via.OPENSSH}:
        return None
    if any(_has_key(file) for file in files):
        return None
    return (
        f"`identity_files`: none of {', '.join(files)} is there; name a key of yours,"
        " or leave it out."
    )


def _find_target_problem(host: Host) -> str | None:
    """Say that no compiler can build for the host's architecture; return None if one
    may be found, or if the entry does not name OS and architecture.

    An OS that needs an SDP, QNX's compiler kit, has only the architectures that the
    SDP's compiler knows: the keys of `VARIANTS`.
    """
    if host.os is None or host.arch is None or host.os not in SYSTEMS:
        return None
    needs_sdp = SYSTEMS[host.os].sdp
    if not needs_sdp or host.arch in VARIANTS:
        return None
    return (
        f"there is no compiler and no agent for {Target(host.os, host.arch)}; correct"
        " or leave out `os` and `arch`."
    )


def _has_key(file: str) -> bool:
    """Report whether a key is there. One half is enough for ssh-agent."""
    return _expand_home(file).exists() or _expand_home(f"{file}.pub").exists()


def _expand_home(file: str) -> Path:
    return Path(os.path.expanduser(file))  # noqa: PTH111  raises nothing for an unknown ~user
