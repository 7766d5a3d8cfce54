"""The decision on a host key and the lines of known_hosts files, without a server: real
keys, real files.
"""

import base64
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import paramiko
import pytest

from fleet.errors import HostKeyError
from fleet.model import Host, HostKeyPolicy
from fleet.remote.ssh import known_hosts
from fleet.remote.ssh.host_keys import HostKeyCheck
from fleet.remote.ssh.known_hosts import Entry, fingerprint
from fleet.remote.ssh.route import Endpoint, resolve_route
from tests import needs
from tests.hosts.sshd import keygen

CLIENT = paramiko.SSHClient()


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> list[paramiko.PKey]:
    """Make an RSA, an ECDSA and two Ed25519 keys."""
    folder = tmp_path_factory.mktemp("host-keys")
    paths = [
        keygen(folder / f"{n}", kind)
        for n, kind in enumerate(("rsa", "ecdsa", "ed25519", "ed25519"))
    ]
    return [paramiko.PKey.from_path(path) for path in paths]


def line(name: str, key: paramiko.PKey) -> str:
    return f"{name} {key.get_name()} {key.get_base64()}\n"


MakeEndpoint = Callable[..., Endpoint]


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeEndpoint:
    """A function: 192.0.2.7 and its known_hosts file with the text `user`; None:
    ssh_config names no file.
    """
    ssh_config = tmp_path / "ssh_config"
    monkeypatch.setenv("FLEET_SSH_CONFIG", str(ssh_config))

    def make(
        user: str | None = None, *, port: int = 2222, config: str = "", **changes: Any
    ) -> Endpoint:
        if user is not None:
            (tmp_path / "known hosts").write_text(user)
        users = "none" if user is None else f'"{tmp_path}/known hosts"'
        ssh_config.write_text(
            f"Host *\n  UserKnownHostsFile {users}\n  GlobalKnownHostsFile"
            f" {tmp_path / 'global'}\n{config}"
        )
        (end,) = resolve_route(Host("board", "192.0.2.7", port=port, **changes))
        return end

    return make


def check(end: Endpoint, key: paramiko.PKey) -> list[str]:
    """Have the key checked; the notes of one that is accepted."""
    decision = HostKeyCheck("board", end)
    decision.missing_host_key(CLIENT, "", key)
    return decision.notes


def refusal_message(end: Endpoint, key: paramiko.PKey) -> str:
    with pytest.raises(HostKeyError) as error:
        check(end, key)
    return str(error.value)


def test_accept_new_without_a_known_hosts_file_is_refused_because_nothing_would_be_remembered(
    endpoint, keys
):
    end = endpoint(host_key=HostKeyPolicy.ACCEPT_NEW)
    text = refusal_message(end, keys[2])
    assert text.startswith(
        "board: 192.0.2.7 port 2222 showed the ssh-ed25519 key"
        f" {fingerprint(keys[2].asbytes())}"
    )
    assert "no file to keep it in: ssh_config sets UserKnownHostsFile to none" in text


def test_accept_new_with_a_file_that_cannot_be_written_is_refused(endpoint, keys):
    end = endpoint("", host_key=HostKeyPolicy.ACCEPT_NEW)
    (file,) = end.user_known_hosts
    Path(file).unlink()
    Path(file).mkdir()
    _, _, advice = refusal_message(end, keys[2]).partition(
        f"{file} cannot be written to remember it: "
    )
    assert "UserKnownHostsFile" in advice


def test_accept_new_writes_the_first_user_file_and_says_so(tmp_path, endpoint, keys):
    end = endpoint("# mine\n", host_key=HostKeyPolicy.ACCEPT_NEW)
    (note,) = check(end, keys[2])
    assert (
        note
        == f"new host key of [192.0.2.7]:2222 accepted into {tmp_path}/known hosts: "
        f"ssh-ed25519 {fingerprint(keys[2].asbytes())}"
    )
    assert (tmp_path / "known hosts").read_text() == "# mine\n" + line(
        "[192.0.2.7]:2222", keys[2]
    )
    assert check(end, keys[2]) == [], "known from now on"


def test_accept_new_hashes_the_name_where_ssh_config_wants_it(tmp_path, endpoint, keys):
    end = endpoint(
        "", host_key=HostKeyPolicy.ACCEPT_NEW, config="  HashKnownHosts yes\n"
    )
    check(end, keys[2])
    assert (tmp_path / "known hosts").read_text().startswith("|1|")
    assert check(end, keys[2]) == [], "known from now on"


@pytest.mark.parametrize(("number", "kind"), [(0, "rsa"), (1, "ecdsa"), (2, "ed25519")])
def test_an_unknown_host_is_refused_with_the_command_that_asks_for_this_kind_of_key(
    tmp_path, endpoint, keys, number, kind
):
    text = refusal_message(endpoint(""), keys[number])
    assert (
        f"run `ssh-keyscan -p 2222 -t {kind} 192.0.2.7 >> '{tmp_path}/known hosts'`"
        in text
    )
    assert (
        f"no known_hosts file lists as [192.0.2.7]:2222 (looked in {tmp_path}/known"
        f" hosts, {tmp_path}/global)" in text
    )
    assert "cert-authority" not in text


def test_without_any_file_the_command_names_the_usual_one(
    tmp_path, endpoint, keys, account_home
):
    text = refusal_message(endpoint(), keys[2])
    assert f"(looked in {tmp_path}/global)" in text
    assert f"192.0.2.7 >> {account_home}/.ssh/known_hosts`" in text


@pytest.mark.parametrize("pattern", ["*", "192.0.2.*", "[192.0.2.7]:2222"])
def test_where_a_certificate_authority_vouches_for_the_host_no_key_is_to_be_added(
    endpoint, keys, tmp_path, pattern
):
    end = endpoint(f"@cert-authority {line(pattern, keys[1])}")
    text = refusal_message(end, keys[2])
    assert f"{tmp_path}/known hosts:1 names a @cert-authority for it" in text
    assert "set `via: openssh`" in text
    assert "ssh-keyscan" not in text


def test_a_known_hosts_command_is_named_and_no_key_is_to_be_added(endpoint, keys):
    end = endpoint("", config="  KnownHostsCommand /bin/echo %H\n")
    text = refusal_message(end, keys[2])
    assert "ssh_config has a KnownHostsCommand, which only ssh itself follows" in text
    assert "set `via: openssh`" in text
    assert "ssh-keyscan" not in text


@pytest.mark.parametrize(
    "field",
    ["AAAAé", "\u00a0", "ssh-ed25519 é", "\ufffd", "AAAA="],
    ids=["é", "blank", "type", "bytes", "base64"],
)
@pytest.mark.parametrize(
    "name", ["[192.0.2.7]:2222", "192.0.2.*", "|1|c2FsdA==|c2FsdA==", "|1|é|é", "|1|"]
)
def test_a_line_that_cannot_be_read_is_skipped(endpoint, keys, name, field):
    end = endpoint(f"{name} ssh-ed25519 {field}\n" + line("[192.0.2.7]:2222", keys[2]))
    assert check(end, keys[2]) == []


def test_the_global_file_is_read_too(tmp_path, endpoint, keys):
    (tmp_path / "global").write_text(line("[192.0.2.7]:2222", keys[2]))
    assert check(endpoint(""), keys[2]) == []


@pytest.mark.parametrize(
    ("entries", "options", "words"),
    [
        (
            [("192.0.2.7", 2)],
            {},
            "no known_hosts file lists",
        ),  # a bare name is believed, and no change
        ([("192.0.2.7", 2)], {"port": 22}, "but the known one is"),
        (
            [("192.0.2.7", 3), ("rack", 2)],
            {"config": "  HostKeyAlias rack\n"},
            "but the known one is",
        ),
    ],
    ids=["bare name", "standard port", "alias"],
)
def test_the_key_of_the_name_looked_up_is_believed_and_no_other(
    endpoint, keys, entries, options, words
):
    end = endpoint(
        "".join(line(name, keys[number]) for name, number in entries), **options
    )
    assert check(end, keys[2]) == []
    assert words in refusal_message(end, keys[3])


@pytest.mark.parametrize("name", ["192.0.2.7", "[192.0.2.7]:2222", "*"])
def test_a_key_revoked_under_any_of_its_names_is_refused(
    tmp_path, endpoint, keys, name
):
    entries = line("[192.0.2.7]:2222", keys[2]) + line("192.0.2.7", keys[2])
    end = endpoint(f"{entries}@revoked {line(name, keys[2])}")
    assert f"which {tmp_path}/known hosts:3 marks as revoked" in refusal_message(
        end, keys[2]
    )
    other = endpoint(f"{entries}@revoked {line(name, keys[3])}")
    assert check(other, keys[2]) == []


def test_a_changed_key_is_refused_with_every_known_one_and_its_place(
    tmp_path, endpoint, keys
):
    entries = (
        "\n" + line("[192.0.2.7]:2222", keys[2]) + line("[192.0.2.7]:2222", keys[0])
    )
    text = refusal_message(endpoint(entries), keys[3])
    assert (
        f"but the known one is ssh-ed25519 {fingerprint(keys[2].asbytes())}"
        f" ({tmp_path}/known hosts:2), ssh-rsa {fingerprint(keys[0].asbytes())}"
        f" ({tmp_path}/known hosts:3)." in text
    )
    assert f"ssh-keygen -R '[192.0.2.7]:2222' -f '{tmp_path}/known hosts'" in text


OURS = ("ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256")


@pytest.mark.parametrize(
    ("entries", "order"),
    [
        ([], OURS),
        ([("[192.0.2.7]:2222", 0)], (*OURS[2:], *OURS[:2])),
        ([("192.0.2.7", 0)], (*OURS[2:], *OURS[:2])),
        ([("[192.0.2.7]:2222", 1)], (OURS[1], OURS[0], *OURS[2:])),
        (
            [("[192.0.2.7]:2222", 1), ("192.0.2.7", 0)],
            (OURS[1], OURS[0], *OURS[2:]),
        ),  # its own name wins
        (
            [("[192.0.2.7]:2222", 2), ("[192.0.2.7]:2222", 0)],
            (OURS[0], *OURS[2:], OURS[1]),
        ),
        ([("@revoked *", 0)], OURS),
    ],
)
def test_the_server_is_asked_first_for_the_kinds_of_key_that_are_known(
    endpoint, keys, entries: Sequence[tuple[str, int]], order
):
    end = endpoint("".join(line(name, keys[number]) for name, number in entries))
    assert tuple(HostKeyCheck("board", end).order_algorithms(OURS)) == order


# The lines of a file


def find_entries(tmp_path: Path, text: str, name: str) -> list[Entry]:
    path = tmp_path / "file"
    path.write_text(text)
    return known_hosts.find_entries([str(path)], name)


def openssh_finds(name: str, file: Path) -> bool:
    command = [needs.program("ssh-keygen", "openssh-client"), "-F", name, "-f", file]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("names", "name", "matches"),
    [
        ("a.lab", "a.lab", True),
        ("b,a.lab,c", "a.lab", True),
        ("A.Lab", "a.lab", True),
        ("a.lab", "b.lab", False),
        ("*.lab", "a.lab", True),
        ("?.lab", "a.lab", True),
        ("?.lab", "ab.lab", False),
        ("*.LAB", "a.lab", True),
        ("*.lab,!a.lab", "a.lab", False),
        ("!a.lab,*.lab", "a.lab", False),
        ("!A.lab,*.lab", "a.lab", False),
        ("!a.lab,*.lab", "b.lab", True),
        ("!b.*", "a.lab", False),
        ("[a]*", "a.lab", False),  # brackets are no class of characters here
        ("[a]:*", "[a]:22", True),
    ],
)
def test_a_line_is_about_the_names_openssh_finds_in_it(
    tmp_path, keys, names, name, matches
):
    (tmp_path / "openssh").write_text(line(names, keys[2]))
    assert openssh_finds(name, tmp_path / "openssh") == matches, (
        "OpenSSH says otherwise"
    )
    entries = find_entries(tmp_path, line(names, keys[2]), name)
    assert [entry.place.rpartition(":")[2] for entry in entries] == ["1"] * matches


def test_a_hashed_name_matches_itself_only(tmp_path, keys):
    (tmp_path / "plain").write_text(line("a.lab", keys[2]))
    subprocess.run(
        [needs.program("ssh-keygen", "openssh-client"), "-H", "-f", tmp_path / "plain"],
        check=True,
        capture_output=True,
    )
    text = (tmp_path / "plain").read_text()
    assert len(find_entries(tmp_path, text, "a.lab")) == 1
    assert find_entries(tmp_path, text, "b.lab") == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# a.lab ssh-ed25519 AAAA",
        "a.lab ssh-ed25519",
        "a.lab ssh-ed25519 A",
        "@unknown a.lab ssh-ed25519 AAAA",
        "@revoked a.lab ssh-ed25519",
        "|1|c2FsdA== ssh-ed25519 AAAA",
        "|1|!|! ssh-ed25519 AAAA",
    ],
)
def test_a_line_nobody_can_read_is_about_nobody(tmp_path, text):
    text = f"{text}\na.lab ssh-ed25519 QUFB extra words\n"
    expected = Entry("a.lab", "ssh-ed25519", b"AAA", "", f"{tmp_path}/file:2")
    assert find_entries(tmp_path, text, "a.lab") == [expected]


@pytest.mark.parametrize(
    "sign", ["\u2028", "\x85", "\x0b", "\x0c", "\x1c", "\r", "\xa0"]
)
@pytest.mark.parametrize(
    "text", ["a.lab{} {}", "{}a.lab {}", "b.lab # {}a.lab {}", "{}\na.lab {}"]
)
def test_only_a_newline_ends_a_line_and_only_a_blank_a_field_as_for_openssh(
    tmp_path, keys, sign, text
):
    text = text.format(sign, line("", keys[2]).lstrip())
    with (tmp_path / "openssh").open("w", newline="") as file:
        file.write(text)
    places = [
        entry.place
        for entry in known_hosts.find_entries([str(tmp_path / "openssh")], "a.lab")
    ]
    assert places == [f"{tmp_path}/openssh:2"] * openssh_finds(
        "a.lab", tmp_path / "openssh"
    )


def test_marked_lines_keep_their_mark(tmp_path):
    text = "@revoked a ssh-rsa AAAA\n@cert-authority a ssh-rsa AAAA\na ssh-rsa AAAA\n"
    markers = [entry.marker for entry in find_entries(tmp_path, text, "a")]
    assert markers == ["@revoked", "@cert-authority", ""]


def test_a_fingerprint_is_the_one_ssh_keygen_shows(tmp_path, keys):
    for key in keys:
        (tmp_path / "pub").write_text(f"{key.get_name()} {key.get_base64()}\n")
        done = subprocess.run(
            [needs.program("ssh-keygen", "openssh-client"), "-lf", tmp_path / "pub"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert fingerprint(base64.b64decode(key.get_base64())) == done.stdout.split()[1]


@pytest.mark.parametrize("before", ["", "a ssh-rsa AAAA\n", "a ssh-rsa AAAA"])
def test_an_added_line_stands_alone(tmp_path, before):
    file = tmp_path / "new" / "known_hosts"
    if before:
        file.parent.mkdir()
        file.write_text(before)
    known_hosts.append_key(str(file), "b", "ssh-ed25519", b"AAA")
    complete = before if before.endswith("\n") or not before else before + "\n"
    assert file.read_text() == f"{complete}b ssh-ed25519 QUFB\n"
    if not before:
        assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (
            0o600,
            0o700,
        )


def test_files_that_are_missing_or_unreadable_know_nobody(tmp_path):
    assert known_hosts.find_entries([str(tmp_path / "none"), str(tmp_path)], "a") == []
