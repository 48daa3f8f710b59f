"""The logger by itself, as the original documents it."""

import numpy as np
import torch

from spinup.utils.logx import EpochLogger, Logger, colorize

epoch_logger = EpochLogger(output_dir="logs/a")
for i in range(10):
    epoch_logger.store(Test=i)
epoch_logger.log_tabular("Test", with_min_and_max=True)
epoch_logger.log_tabular("Epoch", 0)
mean, std = 4.5, np.std(np.arange(10))
assert np.isclose(epoch_logger.log_current_row["AverageTest"], mean)
epoch_logger.dump_tabular()
epoch_logger.store(Test=np.array([1.0, 3.0]))
epoch_logger.store(Test=torch.tensor(2.0))
assert epoch_logger.get_stats("Test")[0] == 2.0
epoch_logger.log_tabular("Test", with_min_and_max=True)
epoch_logger.log_tabular("Epoch", 1)
epoch_logger.dump_tabular()

logger = Logger(output_dir="logs/b", output_fname="log.txt", exp_name="b")
logger.save_config({"lr": 1e-3, "net": torch.nn.Linear, "f": lambda x: x})
logger.log(colorize("hello", "cyan", bold=True))
logger.setup_pytorch_saver(torch.nn.Linear(2, 2))
for itr in range(3):
    logger.log_tabular("Loss", np.float32(itr))
    logger.log_tabular("Name", "text")
    logger.dump_tabular()
    logger.save_state({"some": [1, 2]}, itr)
assert logger.first_row is False and logger.log_headers == ["Loss", "Name"]
model = torch.load("logs/b/pyt_save/model2.pt", weights_only=False)
assert model(torch.zeros(2)).shape == (2,)
