"""Kind E: experiments. A prediction is written first, then the runs are made, then compared.

    spinup exercise start vpg.exp_train_v_iters    writes answer.toml
    spinup exercise run vpg.exp_train_v_iters      makes the runs (--recorded: takes shipped ones)
    spinup exercise check vpg.exp_train_v_iters    says whether the data agree

`run` refuses to start before the prediction and its reason are written, and keeps a copy of them:
that copy is what `check` judges.
"""

from __future__ import annotations

import argparse
import itertools
import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from spinup.utils.errors import SpinupError, one_line, printable
from spinup.utils.toml import parse_toml
from spinup_lab.exercises import recorded
from spinup_lab.exercises.exercise import (
    CANNOT_JUDGE,
    RIGHT,
    WRONG,
    Check,
    Result,
    Task,
    resolve,
    wrapped,
)

ANSWER, KEPT = "answer.toml", "prediction.json"
OWN, SHIPPED = "runs", "recorded"
LEAST = 15  # characters of a reason and of a lesson
UNCLEAR = "unclear"


@dataclass(frozen=True)
class Arm:
    """One of the settings that an experiment compares."""

    name: str
    settings: Mapping[str, Any]


def best_arm(result: Mapping[str, Any], arms: Sequence[str]) -> str:
    """Return the arm that is established to be better than each other one, or "unclear"."""
    for arm in arms:
        pairs = [pair for pair in result["pairs"] if arm in (pair["x"], pair["y"])]
        if all(pair["x"] == arm and pair["verdict"] == "established" for pair in pairs):
            return arm
    return UNCLEAR


def worst_arm(result: Mapping[str, Any], arms: Sequence[str]) -> str:
    """Return the arm that is established to be worse than each other one, or "unclear"."""
    for arm in arms:
        pairs = [pair for pair in result["pairs"] if arm in (pair["x"], pair["y"])]
        if all(pair["y"] == arm and pair["verdict"] == "established" for pair in pairs):
            return arm
    return UNCLEAR


def trend(result: Mapping[str, Any], arms: Sequence[str]) -> str:
    """Return "rises" or "falls" if neighboring arms differ that way, established, or "unclear"."""
    better = {
        (pair["x"], pair["y"]) for pair in result["pairs"] if pair["verdict"] == "established"
    }
    neighbors = list(itertools.pairwise(arms))
    if all((b, a) in better for a, b in neighbors):
        return "rises"
    if all((a, b) in better for a, b in neighbors):
        return "falls"
    return UNCLEAR


def enough(result: Mapping[str, Any], arms: Sequence[str]) -> str:
    """Return the first arm that scores at least 0.8, or "unclear"."""
    for arm in arms:
        if result["algorithms"][arm]["iqm"] >= 0.8:
            return arm
    return UNCLEAR


DECISIONS = {"best": best_arm, "worst": worst_arm, "trend": trend, "enough": enough}


@dataclass(frozen=True, kw_only=True)
class Experiment(Task):
    """An experiment: a question, possible predictions, and the runs that answer it.

    Attributes:
        choices: the possible predictions: word -> sentence. "unclear" stands for a difference that
            these runs cannot establish.
        arms: the settings that are compared.
        value: the column whose mean over the last `last` rows is a run's score.
        seeds: number of runs per arm.
        decide: (result of compare, names of the arms) -> the prediction that the data support.
        lesson: what to learn from it, shown once the runs are there.
        algo: the training function, with `settings` as its arguments; or
        measure: "module:function" that takes (seed, **settings) and returns rows for the log.
        seconds: how long one run takes, about.
    """

    kind: ClassVar[str] = "E"
    kind_name: ClassVar[str] = "experiment"

    choices: Mapping[str, str]
    arms: tuple[Arm, ...]
    value: str
    lesson: str
    seeds: int = 5
    last: int = 5
    decide: Callable[[Mapping[str, Any], Sequence[str]], str] = best_arm
    algo: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    measure: str = ""
    seconds: int = 10

    @property
    def file(self) -> str:
        """Name of the file with the prediction."""
        return ANSWER

    @property
    def names(self) -> list[str]:
        """The names of the arms."""
        return [arm.name for arm in self.arms]

    def files(self) -> dict[str, str]:
        """Return `answer.toml` and `README.md`."""
        lines = [f"# {self.id}: {self.title}", "#"]
        question = textwrap.fill(
            " ".join(self.task.split()), 90, initial_indent="# ", subsequent_indent="# "
        )
        choices = [f'#   "{key}": {text}' for key, text in self.choices.items()]
        shipped = "     (--recorded: take shipped runs)" if recorded.exists(self.id) else ""
        return {
            ANSWER: "\n".join(
                [
                    *lines,
                    question,
                    "#",
                    "# Write these two BEFORE the runs. Your prediction is one of:",
                    *choices,
                    'prediction = ""',
                    'reason = ""',
                    "",
                    f"# Then:  spinup exercise run {self.id}{shipped}",
                    f"# and:   spinup exercise check {self.id}",
                    "#",
                    "# If the data disagree with you, write here what you believe now, and check "
                    "again.",
                    'lesson = ""',
                    "",
                ]
            ),
            "README.md": self.readme(),
        }

    def readme(self) -> str:
        """Return the task as a Markdown page."""
        choices = "\n".join(f'- `"{key}"`: {text}' for key, text in self.choices.items())
        arms = ", ".join(f"`{name}`" for name in self.names)
        shipped = recorded.exists(self.id)
        return (
            f"# {self.id}: {self.title}\n\n{self.task}\n\n"
            f"Compared are {arms}, {self.seeds} runs each, by the column `{self.value}` (mean of "
            f"the last {self.last} rows).\n\nPredictions:\n\n{choices}\n\n"
            f"1. Write `prediction` and `reason` into `{ANSWER}`.\n"
            f"2. `spinup exercise run {self.id}` makes the runs (`--dry_run` shows how many)"
            f"{', or takes the shipped ones with `--recorded`' if shipped else ''}.\n"
            f"3. `spinup exercise check {self.id}` compares them. If the data disagree with you, "
            "write what you believe now into `lesson`, and check again. A wrong prediction is no "
            "failure: it is what an experiment is for.\n"
        )

    # ------------------------------------------------------------------------------------ judging

    def check(self, file: Path, seed: int = 0) -> Result:
        """Compare the runs, and say whether they agree with the prediction."""
        try:
            return self._check(file)
        except SpinupError as error:
            checks = (Check("the experiment can be judged", False, one_line(error)),)
            return Result(self.id, CANNOT_JUDGE, checks, next=f"spinup exercise hint {self.id}")

    def _check(self, file: Path) -> Result:
        answer = read_answer(file)
        kept = file.with_name(KEPT)
        run = f"spinup exercise run {self.id}"
        if not kept.is_file():
            fault = self.fault(answer, file)
            check = Check(
                "a prediction and its reason are written", not fault, fault or "now make the runs"
            )
            return Result(self.id, WRONG, (check,), next=run if not fault else "")
        prediction = json.loads(kept.read_text(encoding="utf-8"))["prediction"]
        folder = self.runs_folder(file.parent)
        if folder is None:
            check = Check("the runs are there", False, f"make them: {run}")
            return Result(self.id, WRONG, (check,), next=run)
        checks = [Check(f"predicted before the runs: {prediction}", True, self.choices[prediction])]
        if answer.get("prediction") != prediction:
            text = f"{ANSWER} says something else now; what counts is the prediction before the run"
            checks.append(Check("the prediction was changed afterwards", True, text))
        found = self.compare(folder)
        data = self.decide(found, self.names)
        sentences = _differences(found["pairs"])
        whose = "shipped runs" if folder.name == SHIPPED else "your runs"
        checks.append(Check(f"{whose}: {self._scores(found)}", True, sentences))
        agree = data == prediction
        text = f"the data say: {data} ({self.choices[data]})"
        lesson = str(answer.get("lesson", "")).strip()
        if agree:
            checks.append(Check("prediction and data agree", True, wrapped(self.lesson)))
        elif len(lesson) >= LEAST:
            checks.append(Check("the data disagree, and you wrote why", True, text))
            checks.append(Check("what others learned from it", True, wrapped(self.lesson)))
        else:
            text += (
                f"\n{wrapped(self.lesson)}\nWrite what you believe now into 'lesson' of {ANSWER}, "
                f"in at least {LEAST} characters"
            )
            checks.append(Check("prediction and data agree", False, text))
            return Result(self.id, WRONG, tuple(checks), next=f"spinup exercise check {self.id}")
        return Result(self.id, RIGHT, tuple(checks))

    def _scores(self, found: Mapping[str, Any]) -> str:
        parts = []
        for name in self.names:
            numbers = found["algorithms"][name]
            low, high = numbers["iqm_ci"]
            parts.append(f"{name} {numbers['iqm']:.3g} ({low:.3g} to {high:.3g})")
        return f"{self.value} {', '.join(parts)}"

    def compare(self, folder: Path) -> dict[str, Any]:
        """Return what `spinup compare` finds in the runs of a folder."""
        from spinup.analysis.compare import compare

        folders = [str(folder / recorded.slug(name)) for name in self.names]
        xaxis = "TotalEnvInteracts" if self.algo else "Epoch"
        return compare(
            folders, self.names, xaxis=xaxis, value=self.value, last=self.last, reps=2000
        )

    def runs_folder(self, folder: Path) -> Path | None:
        """Return where the runs of all arms are: the learner's own, or the shipped ones."""
        for name in (OWN, SHIPPED):
            place = folder / name
            # training that was interrupted has a log, but it has not marked its end
            mark = ".finished" if name == OWN and self.algo else "progress.txt"
            if all(
                len(list((place / recorded.slug(arm)).glob(f"*/{mark}"))) >= self.seeds
                for arm in self.names
            ):
                return place
        return None

    def fault(self, answer: Mapping[str, Any], file: Path) -> str:
        """Return what is missing in an answer before the runs may start, or ''."""
        prediction, reason = (str(answer.get(key, "")).strip() for key in ("prediction", "reason"))
        words = ", ".join(f'"{key}"' for key in self.choices)
        if not prediction:
            return f"write your prediction into {printable(file)} first: one of {words}"
        if prediction not in self.choices:
            return f"the prediction '{printable(prediction)}' is not one of {words}"
        if len(reason) < LEAST:
            return (
                f"write the reason for your prediction, in at least {LEAST} characters, into "
                f"{printable(file)} as well"
            )
        return ""

    def solution(self) -> str:
        """Return what the experiment teaches."""
        text = f"{self.id}: what the experiment teaches.\n\n{wrapped(self.lesson)}"
        if not recorded.exists(self.id):
            return text
        return f"{text}\n\nThe shipped runs: spinup exercise run {self.id} --recorded"

    # ------------------------------------------------------------------------------------ running

    def keep_prediction(self, file: Path) -> None:
        """Keep the prediction of `answer.toml`; raise an error if there is none yet."""
        from spinup_lab.exercises.progress import now

        kept = file.with_name(KEPT)
        if kept.is_file():
            return
        if not file.is_file():
            raise SpinupError(
                f"there is no file {printable(file)}: 'spinup exercise start {self.id}' writes it"
            )
        answer = read_answer(file)
        if fault := self.fault(answer, file):
            raise SpinupError(fault)
        content = {
            "prediction": str(answer["prediction"]).strip(),
            "reason": str(answer["reason"]).strip(),
            "time": now(),
        }
        kept.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    def require_recorded(self) -> None:
        """Raise an error if no runs are shipped."""
        if not recorded.exists(self.id):
            raise SpinupError(
                f"no runs are shipped for {self.id}: make them with 'spinup exercise run {self.id}'"
            )

    def take_recorded(self, folder: Path) -> None:
        """Write the shipped runs into a folder."""
        recorded.unpack(recorded.load(self.id), folder)

    def make_runs(self, folder: Path, workers: int = 1) -> None:
        """Make all runs; those that are finished already are kept."""
        for arm in self.arms:
            if self.measure:
                self._measure(arm, folder)
            else:
                self._train(arm, folder, workers)

    def _train(self, arm: Arm, folder: Path, workers: int) -> None:
        from spinup.grids.experiments import ExperimentGrid

        grid = ExperimentGrid(recorded.slug(arm.name))
        for key, value in {**self.settings, **arm.settings}.items():
            grid.add(key, [value])
        grid.add("seed", list(range(self.seeds)))
        train = resolve(f"spinup.algos.pytorch.{self.algo}.{self.algo}:{self.algo}")
        grid.run(train, data_dir=folder, num_workers=workers)

    def _measure(self, arm: Arm, folder: Path) -> None:
        function = resolve(self.measure)
        for seed in range(self.seeds):
            rows = function(seed, **{**self.settings, **arm.settings})
            run = recorded.RecordedRun(
                arm.name,
                seed,
                {"env": self.measure.partition(":")[2], **self.settings, **arm.settings},
                tuple(rows[0]),
                tuple(tuple(row.values()) for row in rows),
            )
            recorded.unpack([run], folder)


def read_answer(file: Path) -> dict[str, Any]:
    """Return what a learner wrote into `answer.toml`."""
    try:
        return parse_toml(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpinupError(f"{printable(file)} cannot be read: {one_line(error)}") from None


def _differences(pairs: Sequence[Mapping[str, Any]]) -> str:
    """Return what the data say about each pair of arms: a sentence, or a line if there are many."""
    if len(pairs) == 1:
        return wrapped(pairs[0]["sentence"])
    return "\n".join(
        f"{pair['x']} is above {pair['y']} by {pair['iqm_difference']:.3g} (95% CI "
        f"{pair['iqm_difference_ci'][0]:.3g} to {pair['iqm_difference_ci'][1]:.3g}): "
        f"{pair['verdict']}"
        for pair in pairs
    )


# ---------------------------------------------------------------------------------------- command


def command(args: argparse.Namespace) -> int:
    """Run `spinup exercise run ID`: make the runs of an experiment."""
    from spinup_lab.exercises.tasks import find

    task = find(args.id)
    if not isinstance(task, Experiment):
        raise SpinupError(
            f"{task.id} is not an experiment, so there is nothing to run: "
            f"'spinup exercise check {task.id}' judges your answer"
        )
    runs = len(task.arms) * task.seeds
    if args.dry_run:
        print(f"{task.id}: {', '.join(task.names)}, {task.seeds} runs each.")
        print(f"{runs} runs of about {task.seconds} s each on one core.")
        return 0
    folder = Path(args.dir, task.id)
    if args.recorded:
        task.require_recorded()
    task.keep_prediction(folder / ANSWER)
    if args.recorded:
        task.take_recorded(folder / SHIPPED)
        place = folder / SHIPPED
    else:
        place = folder / OWN
        print(f"{runs} runs of about {task.seconds} s each on one core ...")
        task.make_runs(place, args.workers)
    print(f"The runs are in {printable(place)}: 'spinup plot' draws them.")
    print(f"Next: spinup exercise check {task.id}")
    return 0
