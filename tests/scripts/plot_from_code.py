"""Plotting from code: data frames, and a picture."""

import matplotlib.pyplot as plt
import pandas as pd

from spinup import vpg_pytorch
from spinup.utils.plot import get_all_datasets, get_datasets, make_plots, plot_data
from spinup.utils.run_utils import ExperimentGrid

eg = ExperimentGrid("curves")
eg.add("env_name", "CartPole-v1")
eg.add("seed", [0, 1])
eg.add("epochs", 3)
eg.add("steps_per_epoch", 100)
eg.run(vpg_pytorch)

data = get_all_datasets(["data/curves/"], legend=["vpg"])
assert len(data) == 2 and all(isinstance(frame, pd.DataFrame) for frame in data)
assert {"Performance", "TotalEnvInteracts", "Condition1"} <= set(data[0].columns)
assert len(get_datasets("data/curves/curves_s0", condition="one")) == 1
plt.figure()
plot_data(data, xaxis="TotalEnvInteracts", value="Performance", smooth=2)
plt.savefig("curve.png")
plt.close("all")
make_plots(["data/curves"], legend=None, xaxis="Epoch", values=["Performance"], estimator="mean")
plt.close("all")
frame = pd.read_table("data/curves/curves_s0/progress.txt")
assert frame["Epoch"].tolist() == [0, 1, 2]
