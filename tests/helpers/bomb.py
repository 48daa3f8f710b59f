"""A pickle that shows whether anybody opens it."""

import os


class Bomb:
    """Unpickling it creates the folder `trace`."""

    def __init__(self, trace):
        self.trace = str(trace)

    def __reduce__(self):
        return os.makedirs, (self.trace, 0o777, True)
