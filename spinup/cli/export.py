"""`spinup export`: write a policy for other runtimes; `spinup.policies.export` does the work."""

from __future__ import annotations

from collections.abc import Sequence

from spinup.cli.sentences import command
from spinup.policies import export
from spinup.policies.loading import save_argument
from spinup.utils.argparsing import Parser
from spinup.utils.importing import import_from_here


@command
def main(argv: Sequence[str] | None) -> None:
    """Run `spinup export ...`; the status is 1 if the file acts differently from the original."""
    parser = Parser(
        "spinup export",
        description="Export a run's deterministic policy to other runtimes.",
        allow_abbrev=False,
    )
    parser.add_argument("fpath", metavar="RUN", help="run directory")
    parser.add_argument(
        "--onnx", metavar="FILE", required=True, help="file to write, ending in .onnx"
    )
    parser.add_argument(
        "-i",
        "--itr",
        type=save_argument,
        default="last",
        help="number of the save (-1: the last), or best (of a run with --save_best)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing file")
    parser.add_argument("--env", help="id of the environment, for runs of the original Spinning Up")
    parser.add_argument(
        "--trust-pickle",
        "--trust_pickle",
        action="store_true",
        help="open pickles and import modules that the file names; this can run any program",
    )
    args = parser.parse_args(argv)
    if args.trust_pickle or ":" in (args.env or ""):
        import_from_here()  # as `spinup ppo --env module:id` did
    report = export.export_onnx(
        args.fpath,
        args.onnx,
        args.itr,
        trust_pickle=args.trust_pickle,
        env=args.env,
        overwrite=args.overwrite,
    )
    ties = f" ({report.differing} ties up to rounding)" if report.differing else ""
    print(
        f"wrote {args.onnx}; the largest difference from the original on {report.observations} "
        f"observations is {report.difference:.2g}{ties}"
    )
