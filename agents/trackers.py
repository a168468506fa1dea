"""Metrics beside `metrics.jsonl`: TensorBoard, Weights & Biases and the others that Accelerate knows.

`metrics.jsonl` is always written and is what reports read; a tracker is a copy of it for looking at. What a tracker is
told: the numbers of every record, and the run's configuration as hyperparameters, which holds names of environment
variables but no keys.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import UnknownNameError, UsageError
from ..runs import RunFolder, write_json
from .base import import_object

log = logging.getLogger(__name__)

AUTO, NONE = "auto", "none"
PROJECT = "toolcredit"
#: Packages that are not called like their tracker.
_PACKAGES = {"comet_ml": "comet-ml"}


def tracker_names(spec: str) -> list[str]:
    """The trackers that a configuration asks for.

    Args:
        spec: `auto` (TensorBoard if it is installed), `none`, or names with commas between: those that Accelerate
            knows, and import paths `package.module:Class` of a `GeneralTracker`.

    Raises:
        UnknownNameError: there is no such tracker.
        UsageError: its package is not installed.
    """
    if spec == NONE:
        return []
    if spec == AUTO:
        return ["tensorboard"] if importlib.util.find_spec("tensorboard") is not None else []
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers

    names = [name.strip() for name in spec.split(",")]
    installed = {str(name) for name in get_available_trackers()}
    for name in names:
        if ":" in name:
            import_object(name)
        elif name not in LOGGER_TYPE_TO_CLASS:
            raise UnknownNameError("tracker", name, [AUTO, NONE, *LOGGER_TYPE_TO_CLASS], "Or give an import path")
        elif name not in installed:
            raise UsageError(f"the tracker {name!r} is not installed: pip install {_PACKAGES.get(name, name)}")
    return names


class Trackers:
    """The trackers of one run.

    Args:
        spec: see `tracker_names`.
        run: the run folder, in which those that write files do so. Where it is resumed, the configuration is not told
            again, and a tracker that can forgets what it was told of updates that are made again.
        update: updates made so far.

    Raises:
        UsageError: one cannot start, for example because nobody is logged in.
    """

    def __init__(self, spec: str, run: RunFolder | None, update: int):
        self._trackers: list[Any] = []
        if run is None:
            return
        names = tracker_names(spec)
        if names:
            from accelerate import PartialState

            PartialState()  # trackers ask it which process is the main one
        elif spec == AUTO:
            log.info("no tracker: metrics.jsonl has the metrics; for curves in TensorBoard: pip install tensorboard")
        for name in names:
            try:
                tracker = _make(name, run, update)
                tracker.start()
            except Exception as error:  # noqa: BLE001 - each tracker has its own errors
                raise UsageError(f"the tracker {name!r} cannot start: {error}; or choose --tracker none") from None
            if not run.resumed:
                tracker.store_init_configuration(dict(_flat(run.config)))
            self._trackers.append(tracker)

    def log(self, record: Mapping[str, Any]) -> None:
        """Tell the numbers of a metrics record."""
        numbers = {k: v for k, v in _flat(record) if isinstance(v, int | float) and k != "update"}
        for tracker in self._trackers:
            tracker.log(numbers, step=record["update"])

    def close(self) -> None:
        """The run has ended."""
        for tracker in self._trackers:
            tracker.finish()


def _make(name: str, run: RunFolder, update: int) -> Any:
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS

    cls = import_object(name) if ":" in name else LOGGER_TYPE_TO_CLASS[name]
    options: dict[str, Any] = {}
    if name == "tensorboard" and run.resumed:
        options["purge_step"] = update + 1
    elif name == "wandb":
        # One id for all parts of a run: W&B goes on with it, and leaves out steps that it has already.
        identity = run.path / "wandb.json"
        if not identity.exists():
            write_json(identity, {"id": uuid.uuid4().hex})
        options = {
            "id": json.loads(identity.read_text("utf-8"))["id"],
            "resume": "allow",
            "dir": str(run.path),
            "name": run.path.name,
        }
    if cls.requires_logging_directory:
        options["logging_dir"] = str(run.path / cls.name)
    return cls(PROJECT, **options)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested dictionaries as one, with `/` between the names; lists as JSON."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}/")
        elif isinstance(value, Sequence) and not isinstance(value, str):
            yield f"{prefix}{name}", json.dumps(value)
        else:
            yield f"{prefix}{name}", value
