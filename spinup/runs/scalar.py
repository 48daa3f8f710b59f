"""A number that a checkpoint can contain."""


class Scalar:
    """A number that can be tracked."""

    def __init__(self, value: float):
        self.value = float(value)

    def state_dict(self) -> dict[str, float]:
        """Return the number, for a checkpoint."""
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Restore the number from a checkpoint."""
        self.value = float(state["value"])
