"""Run a program that imports the old `gym`: `python -m spinup.compat my_ppo.py --env CartPole-v0`.

The program finds `spinup.compat.gym` instead and needs no change.
"""

import os
import runpy
import sys

import spinup.compat


def main() -> int:
    if len(sys.argv) < 2 or not os.path.isfile(sys.argv[1]):
        given = f", not {sys.argv[1]!r}" if len(sys.argv) > 1 else ""
        print(
            f"spinup: python -m spinup.compat needs the file of a program{given}", file=sys.stderr
        )
        return 2
    spinup.compat.install()
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))  # as `python my_ppo.py` does
    runpy.run_path(sys.argv[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
