"""`spinup plot`: draw learning curves; `spinup.analysis.plot` does the work."""

from __future__ import annotations

from collections.abc import Sequence

from spinup.analysis import plot
from spinup.cli.sentences import command
from spinup.utils.argparsing import Parser


def parser() -> Parser:
    found = Parser(prog="spinup plot", description="Draw learning curves.")
    found.add_argument(
        "logdir",
        nargs="+",
        help="run directory or folder of runs; without a final slash, a prefix of such folders",
    )
    found.add_argument("-l", "--legend", nargs="*", help="one name per folder")
    found.add_argument(
        "-x", "--xaxis", default=plot.DEFAULT_XAXIS, help="column on the x axis (%(default)s)"
    )
    found.add_argument(
        "-y",
        "--value",
        nargs="*",
        default=[plot.DEFAULT_VALUE],
        help="columns to draw (Performance: AverageTestEpRet if logged, else AverageEpRet)",
    )
    found.add_argument(
        "--count", action="store_true", help="draw one line per run instead of one per experiment"
    )
    found.add_argument(
        "-s",
        "--smooth",
        type=int,
        default=1,
        help="width of the moving average, in rows (%(default)s)",
    )
    found.add_argument("--select", nargs="*", help="keep folders whose path contains all of these")
    found.add_argument("--exclude", nargs="*", help="skip folders whose path contains any of these")
    found.add_argument(
        "--est",
        default="mean",
        metavar="|".join(plot.ESTIMATORS),
        help="statistic that the line shows (%(default)s); iqm is the interquartile mean",
    )
    found.add_argument(
        "--band",
        default="sd",
        metavar="|".join(plot.BANDS),
        help="band: standard deviation, 95%% confidence interval, range or none (%(default)s)",
    )
    found.add_argument(
        "--save",
        metavar="FILE",
        nargs="+",
        action="extend",
        help="write FILE (.png, .pdf or .svg) instead of showing the figure",
    )
    return found


@command
def main(argv: Sequence[str] | None) -> None:
    """Run `spinup plot ...`."""
    args = parser().parse_args(argv)
    plot.make_plots(
        args.logdir,
        args.legend,
        args.xaxis,
        args.value,
        args.count,
        smooth=args.smooth,
        select=args.select,
        exclude=args.exclude,
        estimator=args.est,
        band=args.band,
        save=args.save,
    )
