"""The sh text that both ways to a host share. Pure: no input or output.

`local` and `ssh` import it; it knows neither of them.
"""

import secrets
import shlex
from collections.abc import Mapping

# Read by the host's login shell, whichever that is (sh, csh, fish, ...): so no newline, no backslash before
# a quote, nothing that any of them treats specially inside single quotes. The command itself follows on
# stdin, where no login shell touches it and no process list shows it. `read` takes no byte beyond its line,
# so what comes after the mark is the command's own stdin. The subshell turns a signal into 128+n. Only the
# shell's own means: a QNX host may have no printf.
LOADER = (
    "exec /bin/sh -c '"
    "fleet_n=$(echo;echo _);fleet_n=${fleet_n%_};fleet_s=;"
    "while IFS= read -r fleet_l;do "
    'if [ "$fleet_l" = "$0" ];then (eval "$fleet_s");exit $?;fi;'
    'fleet_s="$fleet_s$fleet_l$fleet_n";'
    "done;exit 126' "
)


def remote_command(command: str, env: Mapping[str, str]) -> tuple[str, bytes]:
    """Return what to ask the host's sshd to run, and what must go first to its stdin.

    A link cut before the mark has arrived runs nothing.
    """
    mark = f"fleet-{secrets.token_hex(8)}"
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in env.items())
    return LOADER + mark, f"{exports}{command}\n{mark}\n".encode(errors="surrogateescape")


def put_command(path: str, mode: int, size: int) -> str:
    """Write stdin to `path`: beside it first, under a name nobody can guess, then renamed over it.

    To the host a link cut half-way looks like the end of stdin, so nothing is renamed that has not all of
    its `size` bytes.
    """
    new = shlex.quote(f"{path}.{secrets.token_hex(8)}")
    return (
        f"umask 077; set -C; if cat > {new} && [ $(wc -c < {new}) -eq {size} ] && "
        f"chmod {mode:o} {new} && mv -f {new} {shlex.quote(path)}; then exit 0; fi; "
        f"rm -f {new}; exit 1"
    )
