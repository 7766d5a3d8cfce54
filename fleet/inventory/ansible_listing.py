"""What `ansible-inventory --list` prints for an Ansible inventory; `ansible` makes hosts of it.

Ansible's own built-in parsers read a linked copy, with no settings, plugins or programs of the user: nothing
that lies in or beside the inventory runs, and nothing is decrypted.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from shlex import quote
from typing import Any

from fleet.errors import InventoryError

_TIMEOUT_S = 60
_MEMORY_KIB = 2 << 20
_SIZE_LIMIT_BYTES = 64 << 20
_FILES_LIMIT = 20_000
_VAULT = b"$ANSIBLE_VAULT"
_ERROR_LIMIT = 4_000  # characters
_LIMITED = f'ulimit -v {_MEMORY_KIB} 2>/dev/null; exec "$@"'  # against ranges of a billion hosts


def listing(path: Path) -> tuple[dict[str, Any], list[str]]:
    """The listing as Ansible prints it or a file holds it, and encrypted files left out. InventoryError."""
    try:
        if path.suffix == ".json" and path.stat().st_size < _SIZE_LIMIT_BYTES:
            saved = _mapping(path.read_bytes())
            if saved and "_meta" in saved:
                return saved, []
        program = shutil.which("ansible-inventory")
        if program is None:
            raise InventoryError(
                f"{path}: reading an Ansible inventory needs ansible-inventory, which is not installed. "
                f"Install it (pip install ansible-core), or {_save(path)}"
            )
        with tempfile.TemporaryDirectory(prefix="fleet-ansible-") as work:
            copy = Path(work, "inventory")
            encrypted = _link(path.absolute(), copy)
            found = _mapping(_output(program, path, copy, Path(work)))
    except (OSError, ValueError) as err:
        raise InventoryError(f"{path}: cannot be read: {err}") from err
    if found is None:
        raise InventoryError(f"{path}: {program} printed no JSON object")
    return found, encrypted


def _save(path: Path) -> str:
    """What to do about an inventory that only Ansible with the user's settings can list."""
    command = f"ansible-inventory -i {quote(str(path))} --list > listing.json"
    return f"run `{command}` where Ansible is set up, then use --from-ansible listing.json."


def _mapping(text: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _link(path: Path, copy: Path) -> list[str]:
    """Fill `copy` with links to the inventory's files; the encrypted ones are left out and returned."""
    root = path if path.is_dir() else path.parent
    encrypted: list[str] = []
    count = 0

    def left_out(folder: str, names: list[str]) -> set[str]:
        nonlocal count
        if Path(folder) == root != path:
            kept = {path.name, "group_vars", "host_vars"} & set(names)
        else:
            kept = {name for name in names if not name.startswith(".")}
        vaults = {name for name in kept if _is_vault(Path(folder, name))}
        encrypted.extend(str(Path(folder, name)) for name in sorted(vaults))
        count += len(kept)
        if count > _FILES_LIMIT:
            raise InventoryError(f"{path}: more than {_FILES_LIMIT} files; is this an inventory?")
        return set(names) - kept | vaults

    path.stat()  # an absent file is an error here, not an empty folder
    shutil.copytree(root, copy, ignore=left_out, copy_function=os.symlink)
    if str(path) in encrypted:
        raise InventoryError(f"{path}: encrypted with ansible-vault; {_save(path)}")
    return encrypted


def _is_vault(path: Path) -> bool:
    """Whether a file is encrypted by ansible-vault. Raises InventoryError if it is a program."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(len(_VAULT))
    if head.startswith(b"#!"):
        raise InventoryError(f"{path}: is a program, and fleet runs none; {_save(path)}")
    return head == _VAULT


def _output(program: str, path: Path, copy: Path, work: Path) -> bytes:
    inventory = copy if path.is_dir() else copy / path.name
    command = ["sh", "-c", _LIMITED, "sh", program, "-i", str(inventory), "--list"]
    try:
        done = subprocess.run(
            command,
            cwd=work,
            env=_environment(work),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as err:
        raise InventoryError(f"{path}: {program} did not finish within {_TIMEOUT_S} s") from err
    if done.returncode == 0:
        return done.stdout
    source = path if path.is_dir() else path.parent
    text = " ".join(done.stderr.decode(errors="replace").replace(str(copy), str(source)).split())
    text = re.sub(r" (?=\[WARNING\]:|\[ERROR\]:|ERROR! )", "\n  ", text[:_ERROR_LIMIT])
    raise InventoryError(
        f"{path}: ansible-inventory failed (exit status {done.returncode}):\n  {text}\n"
        f"If it needs a plugin or a program, {_save(path)}"
    )


def _environment(work: Path) -> dict[str, str]:
    """The user's environment without Ansible's settings; plugins come from Ansible itself only."""
    (work / "ansible.cfg").touch()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    none = str(work / "none")
    return kept | {
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_CONFIG": str(work / "ansible.cfg"),
        "ANSIBLE_HOME": str(work / "home"),
        "ANSIBLE_LOCAL_TEMP": str(work / "home" / "tmp"),
        "ANSIBLE_COLLECTIONS_PATH": none,
        "ANSIBLE_INVENTORY_PLUGINS": none,
        "ANSIBLE_VARS_PLUGINS": none,
        "ANSIBLE_VARS_ENABLED": "host_group_vars",
        "ANSIBLE_INVENTORY_ENABLED": "yaml,ini,toml",
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true",
        "ANSIBLE_NOCOLOR": "true",
        "ANSIBLE_DEPRECATION_WARNINGS": "false",
    }
