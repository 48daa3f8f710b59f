"""`spinup compare`: which algorithm is better; `spinup.analysis.compare` does the work."""

from __future__ import annotations

from collections.abc import Sequence

from spinup.analysis import compare, plot
from spinup.cli.sentences import command
from spinup.utils.argparsing import Parser


def parser() -> Parser:
    found = Parser(
        prog="spinup compare",
        description="Compares algorithms over seeds and environments, with confidence intervals.",
    )
    found.add_argument(
        "logdir", nargs="+", help="one folder of runs, or one prefix of folders, per algorithm"
    )
    found.add_argument("-l", "--legend", nargs="+", help="one name per algorithm")
    found.add_argument(
        "-x", "--xaxis", default=plot.DEFAULT_XAXIS, help="column with the steps (%(default)s)"
    )
    found.add_argument(
        "-y", "--value", default=plot.DEFAULT_VALUE, help="column with the returns (%(default)s)"
    )
    found.add_argument(
        "--last",
        type=int,
        default=10,
        help="number of final rows whose mean is a run's score (%(default)s)",
    )
    found.add_argument("--until", type=float, help="ignore rows after this x")
    found.add_argument(
        "--normalize",
        "--normalise",
        dest="normalise",
        nargs="+",
        metavar="HOW",
        help="none, pool (lowest and highest score become 0 and 1), a JSON file "
        '{"env": [low, high]}, or ENV=LOW,HIGH ...; default: pool for several '
        "environments, else none",
    )
    found.add_argument(
        "-s",
        "--smooth",
        type=int,
        default=1,
        help="width of the moving average of the efficiency curves, in rows (%(default)s)",
    )
    found.add_argument(
        "--reps", type=int, default=10_000, help="bootstrap replicates (%(default)s)"
    )
    found.add_argument("--seed", type=int, default=0, help="seed of the bootstrap (%(default)s)")
    found.add_argument(
        "--save",
        metavar="FILE|DIR",
        nargs="+",
        action="extend",
        help="write all panels to one file (.png, .pdf or .svg), or one file per panel to a folder",
    )
    found.add_argument("--json", metavar="FILE", help="write all numbers to FILE as JSON")
    return found


@command
def main(argv: Sequence[str] | None) -> None:
    """Run `spinup compare ...`."""
    args = parser().parse_args(argv)
    compare.make_comparison(
        args.logdir,
        args.legend,
        save=args.save,
        json_file=args.json,
        xaxis=args.xaxis,
        value=args.value,
        last=args.last,
        until=args.until,
        normalise=args.normalise,
        smooth=args.smooth,
        reps=args.reps,
        seed=args.seed,
    )
