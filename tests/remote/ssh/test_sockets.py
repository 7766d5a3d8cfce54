"""The TCP connection under an SSH session."""

import socket

import pytest

from fleet.remote.ssh.dial import LinkSocket


def test_a_link_reads_ahead_and_hands_out_what_is_asked_for() -> None:
    ours, theirs = socket.socketpair()
    with LinkSocket(fileno=ours.detach()) as link, theirs:
        theirs.sendall(b"abcdef")
        assert [link.recv(size) for size in (1, 3, 100)] == [b"a", b"bcd", b"ef"]
        link.settimeout(0.01)
        with pytest.raises(TimeoutError):
            link.recv(1)
        theirs.close()
        assert link.recv(1) == b""
