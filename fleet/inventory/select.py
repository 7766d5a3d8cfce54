"""Makes hosts of an inventory that `reader` has read, and selects by name, glob and
label.
"""

import fnmatch
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from heapq import heappop, heappush
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from fleet.errors import UsageError
from fleet.home import expand_home
from fleet.hostnames import ALL, HOST_LIMIT, NAME, expand_range
from fleet.inventory import schema
from fleet.inventory.document import Document, KeyPath
from fleet.inventory.reader import InventoryFile, read_inventory
from fleet.model import (
    BuildPlace,
    Host,
    InputError,
    RequestedToolchain,
    Via,
)
from fleet.model.client import PRESETS, client_command
from fleet.plan.conditions import (
    NO_LAST_RUNS,
    Condition,
    LastRuns,
    parse_condition,
)
from fleet.plan.conflicts import describe_conflict, find_conflicts
from fleet.plan.grammars import parse_age_condition
from fleet.plan.options import BY_NAME, make_requested, options_from_entry
from fleet.text import printable, suggest_similar

_MEMBERSHIP_LIMIT = 50 * HOST_LIMIT
_NEVER = datetime.min.replace(tzinfo=UTC)
NAME_ADVICE = (
    "a name is letters, digits, dot, dash and _, letter or digit first, at most 100;"
    " put the machine's real name in `address:`"
)
# merged key by key; anything else is replaced whole
_BY_KEY = ("env", "labels", "toolchain", "plan")


@dataclass(frozen=True, slots=True)
class Inventory:
    """Hosts in file order; host names by group. unasked_program: the program of
    `hosts_from` if it was not asked, so that hosts may be missing; else "".
    """

    hosts: tuple[Host, ...]
    groups: Mapping[str, tuple[str, ...]]
    path: Path
    unasked_program: str = ""

    def select(
        self,
        selection: Sequence[str] = (),
        last_runs: LastRuns = NO_LAST_RUNS,
    ) -> tuple[Host, ...]:
        """Return the hosts that patterns (docs/inventory.md) select, in file order;
        without patterns, all. Raises UsageError if no host matches.
        """
        patterns: list[str] = []
        for text in selection:
            patterns += re.split(r",(?![^\[]*\])", text)  # at commas outside brackets
        included = [pattern for pattern in patterns if not pattern.startswith("!")]
        excluded = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
        chosen: set[str] = set()
        for pattern in included or [ALL]:
            chosen |= self._match_names(pattern, last_runs)
        for pattern in excluded:
            chosen -= self._match_names(pattern, last_runs)
        if not chosen:
            raise UsageError(
                f"{self.path}: the selection {' '.join(patterns)!r} leaves no host. See"
                " `fleet hosts`."
            )
        return tuple(host for host in self.hosts if host.name in chosen)

    def _match_names(self, pattern: str, last_runs: LastRuns) -> set[str]:
        """Return the names of the hosts that one pattern selects: `all`, an age of the
        last run, a condition on a label or a fact, or a name of hosts or of a group.
        Raises UsageError if it can select none.
        """
        if pattern == ALL:
            return {host.name for host in self.hosts}
        condition = parse_condition(pattern)
        pattern_of_hosts = condition.hosts if condition else pattern
        try:
            is_of_age = parse_age_condition(pattern)
            # an age has no range: it is expanded only to itself
            globs = expand_range(pattern_of_hosts)
        except InputError as err:
            raise UsageError(f"{self.path}: the selection {pattern!r}: {err}") from err
        if is_of_age is not None:
            return self._match_age(is_of_age, last_runs)
        if condition is not None:
            return self._match_condition(condition, globs, last_runs)
        return self._match_hosts_and_group(pattern, globs)

    def _match_hosts_and_group(self, pattern: str, globs: Sequence[str]) -> set[str]:
        """Return the names of the hosts in the group that the pattern names, and of
        those that its globs match. Raises UsageError if there is no such group and no
        such host.
        """
        names = {*self.groups.get(pattern, ())}
        names.update(host.name for host in self._match_globs(globs))
        if not names and pattern not in self.groups:
            host_names = [host.name for host in self.hosts]
            similar = suggest_similar(pattern, [*host_names, *self.groups])
            raise UsageError(
                f"{self.path}: no host or group is called {pattern!r}{similar} See"
                " `fleet hosts`."
            )
        return names

    def _match_age(
        self, is_of_age: Callable[[datetime], bool], last_runs: LastRuns
    ) -> set[str]:
        """Return the hosts whose last run began in a span of time; a host without runs
        counts as measured long ago.
        """
        starts = last_runs.read_starts()
        return {
            host.name
            for host in self.hosts
            if is_of_age(starts.get(host.host_id, _NEVER))
        }

    def _match_condition(
        self, condition: Condition, globs: Sequence[str], last_runs: LastRuns
    ) -> set[str]:
        """Return the hosts with this label, or with this fact in their last run."""
        facts: Mapping[str, Mapping[str, str]] = {}
        if condition.is_of_fact:
            facts = last_runs.read_facts()
        names = {
            host.name
            for host in self._match_globs(globs)
            if condition.matches(host.labels, facts.get(host.host_id, {}))
        }
        if not names:
            labels = [host.labels for host in self.hosts]
            there_are = condition.describe_values(labels, facts.values())
            text = f"{condition.key}={condition.value}"
            raise UsageError(f"{self.path}: no host has {text}{there_are}")
        return names

    def _match_globs(self, globs: Sequence[str]) -> list[Host]:
        return [
            host
            for host in self.hosts
            if any(fnmatch.fnmatchcase(host.name, glob) for glob in globs)
        ]


def make_local_inventory(path: Path) -> Inventory:
    """Return an inventory of just the machine that fleet runs on. path: named in
    messages.
    """
    localhost = Host(name="localhost", address="localhost", via=Via.LOCAL)
    return Inventory((localhost,), MappingProxyType({}), path)


def load(
    path: Path, listed_hosts: Mapping[str, Any] | None = None, *, trusted: bool = True
) -> Inventory:
    """Read an inventory and make its hosts, as `load_hosts` does. trusted: the user
    named it. Raises InventoryError.
    """
    return load_hosts(read_inventory(path, is_named=trusted), listed_hosts)


def load_hosts(
    file: InventoryFile, listed_hosts: Mapping[str, Any] | None = None
) -> Inventory:
    """Make the hosts of an inventory. Raises InventoryError, also if it lacks trust.

    listed_hosts: by name, the hosts that the program of `hosts_from` listed before.
    None: ask the program now. {}: do without its hosts, as a caller does who only wants
    names; for these the file needs no trust.
    """
    document = file.document
    wants_names_only = listed_hosts == {}
    if document.data is None:
        document.reject((), "the file is empty; `fleet init` shows what belongs in it")
    document.require_no_problems()
    if not wants_names_only:
        file.require_trusted_hosts()
    declared = dict(file.values)
    unasked_program = ""
    if "hosts_from" in declared:
        declared["hosts"] = _add_listed_hosts(document, declared, listed_hosts)
        if wants_names_only:
            # a name that is not declared may be that of a host which it would list
            unasked_program = _name_program(declared["hosts_from"])
    # each step adds its problems to the document, and the next relies on their absence
    resolver = _Resolver(document, declared, unasked_program)
    document.require_no_problems()
    inventory = resolver.resolve()
    document.require_no_problems()
    return inventory


def _name_program(source: str | Sequence[str]) -> str:
    """Return what `hosts_from` names, a kind of cluster or a command, as one text."""
    return source if isinstance(source, str) else shlex.join(source)


def _add_listed_hosts(
    document: Document,
    declared: Mapping[str, Any],
    listed_hosts: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the entries of `hosts:` and of the hosts that `hosts_from` lists. For a
    host in both, the keys in the file win. listed_hosts: the hosts that it listed
    before, by name; None: ask it now.
    """
    from fleet.inventory.clusters import (  # noqa: PLC0415  few inventories need it
        list_or_reuse_hosts,
    )

    source = declared["hosts_from"]
    defaults = declared.get("defaults", ())
    entries = list_or_reuse_hosts(source, defaults, listed_hosts)
    line = document.line(("hosts_from",))
    hosts = dict(declared.get("hosts", {}))
    for name, entry in entries.items():
        # a problem of a host that is not in the file is one of `hosts_from`
        document.lines.setdefault(("hosts", name), line)
        converted = schema.convert_entry(name, entry, document)
        own_entry = hosts.get(name) or {}
        hosts[name] = converted | own_entry
    return hosts


class _Entry(NamedTuple):
    """What an inventory says of a host. written: its key, which may be a range that
    names other hosts, too, such as `n[1-3]`.
    """

    written: str
    settings: dict[str, Any]


class _Resolver:
    """Merges defaults, groups and entries into hosts; adds contradictions to the
    document's problems.
    """

    def __init__(
        self, document: Document, declared: Mapping[str, Any], unasked_program: str
    ) -> None:
        """Take what an inventory declares, converted by its schema, and the names of
        its hosts.

        unasked_program: the program that would list further hosts. It is not asked
        where only names are wanted, since starting it needs trust. "": `declared` has
        all hosts.
        """
        self.path = document.path
        self.unasked_program = unasked_program
        self.document = document
        self.add_problem = document.reject
        self.defaults: dict[str, Any] = declared.get("defaults", {})
        self.groups: dict[str, dict[str, Any]] = {}  # by group name: its settings
        # by group name: the names of its child groups, each once
        self.children: dict[str, list[str]] = {}
        for name, settings in declared.get("groups", {}).items():
            self.groups[name] = settings or {}
            children = self.groups[name].get("children", ())
            self.children[name] = list(dict.fromkeys(children))
        # by group name: its place in the file, counted from 0
        self.places = {group: place for place, group in enumerate(self.groups)}
        self.entries: dict[str, _Entry] = {}  # by host name
        self.match_hosts = cache(self._match_hosts)
        self._expand_names(declared.get("hosts", {}))

    def resolve(self) -> Inventory:
        """Return the inventory. If the document has problems afterwards, it must not be
        used.
        """
        if not self.entries and not self.unasked_program:
            self.add_problem(
                ("hosts",), "names no host; add one below `hosts:`, such as `web1:`"
            )
        self._check_host_names()
        self._check_group_names()
        members = self._members_by_group()
        groups_by_host: dict[str, list[str]] = {name: [] for name in self.entries}
        for group, names in members.items():
            for name in names:
                groups_by_host[name].append(group)
        hosts = {
            name: self._resolve_host(name, groups)
            for name, groups in groups_by_host.items()
        }
        places = {name: place for place, name in enumerate(hosts)}
        in_file_order = {
            group: tuple(sorted(names, key=places.__getitem__))
            for group, names in members.items()
        }
        # a build host is a host itself, so all have to be there
        complete = [self._add_build_host(host, hosts) for host in hosts.values()]
        return Inventory(
            hosts=tuple(complete),
            groups=MappingProxyType(in_file_order),
            path=self.path,
            unasked_program=self.unasked_program,
        )

    def _expand(self, written: str, path: KeyPath) -> list[str]:
        """Return the names of a range; add a problem, and return [], if it is none."""
        try:
            return expand_range(written)
        except InputError as err:
            self.add_problem(path, str(err))
            return []

    def _expand_names(self, hosts: Mapping[str, Any]) -> None:
        """Add the entries of `hosts:`, each by the name of its host. A key that is a
        range, such as n[1-3], makes an entry with the same settings for each of its
        names.
        """
        for written, settings in hosts.items():
            path = ("hosts", written)
            for name in self._expand(written, path):
                if name in self.entries:
                    first_written = self.entries[name].written
                    first = self.document.line(("hosts", first_written))
                    text = (
                        f"{name} is declared a second time (first in line {first});"
                        " keep one of them"
                    )
                    self.add_problem(path, text)
                self.entries.setdefault(name, _Entry(written, settings or {}))
            if len(self.entries) > HOST_LIMIT:
                self.add_problem(
                    path, f"more than {HOST_LIMIT} hosts; split the inventory"
                )
                return  # further ranges would only take memory

    def _check_host_names(self) -> None:
        """Add problems for names that no host may have, or that two hosts have."""
        # Results are in a folder named by the host's ID, and a disk may ignore case. So
        # note by ID, in lower case, the first host that has the ID.
        name_by_id: dict[str, str] = {}
        for name, entry in self.entries.items():
            path = ("hosts", entry.written)
            folded_id = Host(name, "").host_id.casefold()
            earlier = name_by_id.setdefault(folded_id, name)
            if not NAME.fullmatch(name):
                self.add_problem(path, NAME_ADVICE)
            elif earlier != name:
                text = (
                    f"{name} and {earlier} would share one directory of results; rename"
                    " one of them"
                )
                self.add_problem(path, text)
            elif name == ALL:
                self.add_problem(
                    path, f"{ALL!r} selects every host and cannot name one"
                )

    def _check_group_names(self) -> None:
        """Add problems for names that no group may have, or that a host has."""
        for group in self.groups:
            if not NAME.fullmatch(group):
                self.add_problem(("groups", group), NAME_ADVICE)
            # `all`, which selects every host, counts as the name of a host
            elif group in self.entries or group == ALL:
                self.add_problem(
                    ("groups", group), "is also the name of a host; rename the group"
                )

    def _members_by_group(self) -> dict[str, set[str]]:
        """Return the names of the hosts in each group. Parents come before their
        children, whose settings override those of the parents. Apart from that, groups
        are in file order. Return {} after adding a problem.
        """
        direct_members = {
            group: self._find_direct_members(group) for group in self.groups
        }
        self._check_children()
        if self.document.problems:
            return {}
        order = self._order_groups()
        if len(order) < len(self.groups):
            left_out = set(self.groups) - set(order)
            first = min(left_out, key=self.places.__getitem__)
            self.add_problem(
                ("groups", first, "children"), "these groups contain one another"
            )
            return {}
        return self._join_members(order, direct_members)

    def _check_children(self) -> None:
        """Add a problem for each child that is no group."""
        for group, settings in self.groups.items():
            for index, child in enumerate(settings.get("children", ())):
                if child not in self.groups:
                    similar = suggest_similar(child, self.groups)
                    path = ("groups", group, "children", index)
                    self.add_problem(path, f"no group is called {child!r}{similar}")

    def _order_groups(self) -> list[str]:
        """Return the groups, parents before children, else in file order (Kahn's
        algorithm). Groups that contain one another are left out, and so are all below
        them, since their parents never come.
        """
        parents_left = Counter(chain.from_iterable(self.children.values()))
        names = list(self.groups)
        # a heap, so that the first in the file is taken first; places in ascending
        # order are one already
        ready_places = [
            place for name, place in self.places.items() if not parents_left[name]
        ]
        order = []
        while ready_places:
            group = names[heappop(ready_places)]
            order.append(group)
            for child in self.children[group]:
                parents_left[child] -= 1
                if not parents_left[child]:
                    heappush(ready_places, self.places[child])
        return order

    def _join_members(
        self, order: Sequence[str], direct_members: Mapping[str, set[str]]
    ) -> dict[str, set[str]]:
        """Return the host names of each group and of those below it, in this order.
        order: parents before children. direct_members: the hosts that each group names.
        """
        members = {group: set(direct_members[group]) for group in order}
        count = 0
        # the children first, so that each is complete when its parents take it in
        for group in reversed(order):
            for child in self.children[group]:
                members[group] |= members[child]
            count += len(members[group])
            if count > _MEMBERSHIP_LIMIT:
                text = f"groups of more than {_MEMBERSHIP_LIMIT} members in all"
                self.add_problem(("groups", group), f"{text}; split the inventory")
                return {}
        return members

    def _find_direct_members(self, group: str) -> set[str]:
        """Return the hosts that a group's own `hosts:` name or match. Add a problem for
        a pattern that matches none, unless a program may still list it.
        """
        members: set[str] = set()
        patterns = self.groups[group].get("hosts", ())
        for index, written in enumerate(patterns):
            path = ("groups", group, "hosts", index)
            for pattern in self._expand(written, path):
                matches = self.match_hosts(pattern)
                if not matches and not self.unasked_program:
                    similar = suggest_similar(pattern, self.entries)
                    self.add_problem(path, f"no host is called {pattern!r}{similar}")
                members |= matches
        return members

    def _match_hosts(self, pattern: str) -> frozenset[str]:
        """Return the host of this name, or, if there is none, those of the glob."""
        if pattern in self.entries:
            return frozenset([pattern])
        return frozenset(fnmatch.filter(self.entries, pattern))

    def _resolve_host(self, name: str, groups: Sequence[str]) -> Host:
        """Return a host, merged from defaults, groups and its entry; the last that has
        a setting wins. groups: the groups that the host is in, parents before children.
        """
        entry = self.entries[name]
        settings_of_groups = [self.groups[group] for group in groups]
        merged = _merge_layers([self.defaults, *settings_of_groups, entry.settings])
        entry_path = ("hosts", entry.written)
        self._check_target(name, merged, entry_path)
        arguments = _host_arguments(merged, self.path.parent, name)
        host = Host(
            name=name,
            # in file order
            groups=tuple(sorted(groups, key=self.places.__getitem__)),
            origin=f"{printable(str(self.path))}:{self.document.line(entry_path)}",
            **arguments,
        )
        # the paths of the merged settings in the file, in the order of merging
        layers: list[KeyPath] = [("defaults",)]
        layers += [("groups", group) for group in groups]
        layers.append(entry_path)
        host = self._complete_client_command(host, layers)
        self._check_plan(host, layers)
        return host

    def _check_target(
        self, name: str, merged: Mapping[str, Any], entry_path: KeyPath
    ) -> None:
        """Add problems for a prebuilt agent without its path, and for an OS release of
        a host that is not QNX.
        """
        is_prebuilt = merged.get("build") is BuildPlace.PREBUILT
        toolchain = merged.get("toolchain", {})
        if is_prebuilt and "binary" not in toolchain:
            text = f"{name}: prebuilt needs `toolchain: {{binary: PATH}}` as well"
            self.add_problem((*entry_path, "build"), text)
        is_qnx = merged.get("os") == "qnx"
        if "os_release" in merged and not is_qnx:
            text = f"{name}: os_release is for QNX hosts; set `os: qnx` as well"
            self.add_problem((*entry_path, "os_release"), text)

    def _complete_client_command(self, host: Host, layers: Sequence[KeyPath]) -> Host:
        """Return the host with the command of the program that reaches it: its own, or
        that of the preset that `via` names. Add a problem if it needs a command and has
        none that can be filled in, or has one and needs none. layers: where its
        settings are in the file.
        """
        if host.via in {Via.SSH, Via.OPENSSH, Via.LOCAL}:
            if host.command:
                text = (
                    f"{host.name}: `command` is for `via: command`, and this host has"
                    f" `via: {host.via}`"
                )
                self.add_problem(self._find_deciding_path(("command",), layers), text)
            return host
        host = replace(host, command=host.command or PRESETS.get(host.via, ()))
        command_key = self._find_deciding_path(("command",), layers)
        key = command_key or self._find_deciding_path(("via",), layers)
        if not host.command:
            self.add_problem(
                key, f"{host.name}: needs `command: [PROGRAM, WORD, ...]` as well"
            )
            return host
        try:
            client_command(host, ())  # only to see whether that raises an error
        except InputError as err:
            self.add_problem(key, str(err))
        return host

    def _check_plan(self, host: Host, layers: Sequence[KeyPath]) -> None:
        """Add a problem for options in the host's entry that exclude one another. An
        option that the entry does not set has a default, which the command line may
        still replace. So a conflict with a default is no problem here.

        layers: the paths of the host's settings in the file, in the order of merging.
        """
        options = options_from_entry(host)
        for names, why in find_conflicts(options):
            if any(getattr(options, name) is None for name in names):
                continue
            keys = []
            sources = []
            for name in names:
                option = BY_NAME[name]
                key = self._find_deciding_path(option.key, layers)
                written = option.as_yaml(getattr(options, name))
                keys.append(key)
                sources.append(f"`{written}` (line {self.document.line(key)})")
            self.add_problem(keys[0], describe_conflict(sources, why))

    def _find_deciding_path(
        self, key: tuple[str, ...], layers: Sequence[KeyPath]
    ) -> KeyPath:
        """Return the path of `key` in the last layer that sets it, since that one wins;
        () if none does.
        """
        for layer in reversed(layers):
            path = (*layer, *key)
            if path in self.document.lines:
                return path
        return ()

    def _add_build_host(self, host: Host, hosts: Mapping[str, Host]) -> Host:
        """Return the host with its build host, if that is another host. Add a problem
        if it is missing, unless a program may still list it.
        """
        name = host.toolchain.build_host
        entry_path = ("hosts", self.entries[host.name].written)
        if name is None or name == host.name:
            if host.build is BuildPlace.BUILD_HOST:
                text = (
                    f"{host.name}: build-host needs `toolchain: {{build_host: NAME}}`"
                    " as well"
                )
                self.add_problem((*entry_path, "build"), text)
            return host
        if name in hosts:
            return replace(host, build_host=hosts[name])
        if not self.unasked_program:
            text = f"no host is called {name!r}{suggest_similar(name, hosts)}"
            self.add_problem((*entry_path, "toolchain"), text)
        return host


def _merge_layers(layers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the settings of defaults, groups and an entry, of which later ones win.
    Mappings such as `labels` are merged key by key.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            if key in _BY_KEY:
                earlier_value = merged.get(key, {})
                merged[key] = {**earlier_value, **value}
            elif key not in ("hosts", "children"):  # which say what is in a group
                merged[key] = value
    return merged


def _host_arguments(
    merged: Mapping[str, Any], directory: Path, name: str
) -> dict[str, Any]:
    """Return the arguments of a Host. Its relative paths begin at `directory`, that of
    the inventory.

    merged: the settings of defaults, groups and entry. Most keys are names of Host's
    fields. The values that Host has in another form are converted here.
    """
    is_local = merged.get("via") is Via.LOCAL
    default_address = "localhost" if is_local else name
    address = merged.get("address", default_address)
    identity_files = []
    for file in merged.get("identity_files", ()):
        path = _join_path(directory, expand_home(file))
        identity_files.append(path)
    toolchain = merged.get("toolchain", {})
    plan = merged.get("plan", {})
    env = merged.get("env", {})
    labels = merged.get("labels", {})
    arguments = dict(merged)
    arguments["wait_s"] = arguments.pop("wait", 0.0)
    arguments["address"] = address.replace("{name}", name)
    arguments["identity_files"] = tuple(identity_files)
    arguments["toolchain"] = _make_toolchain(toolchain, directory)
    arguments["plan"] = make_requested(plan)
    arguments["env"] = MappingProxyType(env)
    arguments["labels"] = MappingProxyType(labels)
    return arguments


def _make_toolchain(values: Mapping[str, Any], directory: Path) -> RequestedToolchain:
    """Make a toolchain from its settings. Relative paths begin at `directory`. A path
    `sdp` below `~/` is left as it is: it is in the home of the build host's user.
    """
    toolchain = dict(values)
    if "binary" in toolchain:
        toolchain["binary"] = _join_path(directory, toolchain["binary"])
    if "sdp" in toolchain and not toolchain["sdp"].startswith("~/"):
        toolchain["sdp"] = _join_path(directory, toolchain["sdp"])
    return RequestedToolchain(**toolchain)


def _join_path(directory: Path, path: str) -> str:
    try:
        return str(directory.absolute() / Path(path).expanduser())
    except RuntimeError:  # ~user without such a user: opening the file reports it
        return path
