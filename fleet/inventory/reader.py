"""Reads inventory.yaml once, for the settings and the hosts alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet.inventory import schema
from fleet.inventory.document import Document, RiskyValue, read_yaml
from fleet.inventory.trust import require_trust

_SETTINGS = "fleet"


@dataclass(frozen=True, slots=True)
class InventoryFile:
    """An inventory as it was read. values: by table, converted by the schema.
    is_named: the user named it, so it needs no other trust.
    """

    document: Document
    values: Mapping[str, Any]
    is_named: bool

    def require_trusted_hosts(self) -> None:
        """Raise InventoryError if the tables of hosts need trust that they lack."""
        risky = self.document.risky
        self._require_trust([value for value in risky if value.path[0] != _SETTINGS])

    def read_settings(self) -> dict[str, Any]:
        """Return what the table `fleet:` sets: defaults of the command line's options,
        by parameter name. A relative path of results begins at the inventory's folder.
        Raises InventoryError.
        """
        self.document.require_no_problems(_SETTINGS)
        risky = self.document.risky
        self._require_trust([value for value in risky if value.path[0] == _SETTINGS])
        settings = dict(self.values.get(_SETTINGS, {}))
        results = settings.get("results")
        if results is not None and "://" not in results:
            folder = self.document.path.parent
            settings["results"] = str(folder / Path(results).expanduser())
        return settings

    def _require_trust(self, risky: list[RiskyValue]) -> None:
        """Raise InventoryError if one of these values needs trust that it lacks."""
        if not self.is_named:
            require_trust(self.document, risky)


def read_inventory(path: Path, *, is_named: bool) -> InventoryFile:
    """Read and convert an inventory. Raises InventoryError if it cannot be read, or if
    its text or its table `fleet:` is not YAML that fleet takes. Other mistakes are
    raised when the settings or the hosts are asked for.

    is_named: the user named the file, so it may be a pipe, and needs no other trust.
    """
    document = read_yaml(
        path, "`fleet init` writes one to start from.", is_named=is_named
    )
    if document.data is not None and not isinstance(document.data, dict):
        document.reject(
            (), "must be a mapping with `hosts:` and perhaps `defaults:` and `groups:`"
        )
        document.data = None
    document.require_no_problems(_SETTINGS)
    return InventoryFile(document, schema.check(document), is_named)
