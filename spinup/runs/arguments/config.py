"""The arguments that determine a run's results and must stay the same when it is resumed."""

import json
from collections.abc import Mapping
from typing import Any

# Arguments that set how a run is executed or how long it lasts. All others determine its results
# and must stay the same when it is resumed.
FREE_ON_RESUME = frozenset(
    {
        "epochs",
        "save_freq",
        "logger_kwargs",
        "resume",
        "overwrite",
        "progress",
        "on_epoch",
        "env_fn",
        "vector",
        "num_threads",
        "device",
        "shards",
        "compile",
    }
)


def as_json(record: Any) -> Any:
    """Convert a record to the form it would have after a round trip through a JSON file."""
    from spinup.utils.serialization_utils import convert_json

    return json.loads(json.dumps(convert_json(record), sort_keys=True, allow_nan=False))


def fingerprint(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that determine a run's results."""
    record = {k: v for k, v in config.items() if k not in FREE_ON_RESUME}
    if record.get("anneal_lr"):
        record["epochs"] = config["epochs"]  # the learning-rate schedule ends with the run
    found: dict[str, Any] = as_json(record)
    return found
