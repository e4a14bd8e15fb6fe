"""Storing individually measured points in a results folder, with those of a run if any, and updating its report."""

from pathlib import Path
from typing import Literal

from dsascape.experiments.question.points import Figure
from dsascape.experiments.report.build import Written, write_report
from dsascape.experiments.results.computed import Computed
from dsascape.experiments.results.folder import note_added
from dsascape.experiments.results.store import ResultStore
from dsascape.hw_models.text.folder_lock import FolderLock

Change = Literal["added", "replaced", "unchanged"]


def keep(
    folder: Path, key: str, computed: Computed, lock: FolderLock | None = None
) -> tuple[Change, Written]:
    """Store a measured point in ``folder`` and update its report; return what changed, and the report.

    ``lock`` is the folder's where the caller holds it.
    Replaces a stored measurement of the point with other figures or from other code. Raises ``StoreError`` where
    nothing can be stored.
    """
    with ResultStore(folder, lock) as store:
        stored = store.keys()
        before = store.rows([key])[0] if key in stored else None
        if before is not None and _same(before, {"key": key, **computed.row}):
            change: Change = "unchanged"
            store.make_current([key])
        else:
            store.add(key, computed.row, computed.layers, computed.kernels)
            change = "added" if before is None else "replaced"
        superseded = store.superseded(key)
    note_added(folder, key, superseded)
    return change, write_report(folder)


def _same(stored: dict[str, Figure], row: dict[str, Figure]) -> bool:
    kept = {name: value for name, value in stored.items() if name not in ("point", "state")}
    return all(row.get(name) == value for name, value in kept.items()) and kept.keys() >= row.keys()
