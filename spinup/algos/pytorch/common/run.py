"""What a training run needs beyond `Run` when its networks are torch modules."""

import torch

from spinup.algos.common.training import Run, TrainingDiverged
from spinup.algos.pytorch.common.nets import ObsFilter, ReturnFilter
from spinup.algos.pytorch.common.policies import make_policy
from spinup.utils.errors import SpinupError
from spinup.utils.mpi_pytorch import sync_params


class TorchRun(Run):
    """A run whose networks are torch modules on one device."""

    backend = "pytorch"

    def _choose_device(self):
        try:
            self.device = torch.device(self.config["device"])
        except RuntimeError as error:
            raise SpinupError(
                f"unknown device {self.config['device']!r}: use cpu or cuda"
            ) from error
        if self.device.type == "cuda" and not torch.cuda.is_available():
            raise SpinupError(
                "device='cuda' was asked for, but torch sees no GPU: use device='cpu'"
            )

    def _limit_threads(self):
        super()._limit_threads()
        before = torch.get_num_threads()
        torch.set_num_threads(self.config["num_threads"])
        self._closers.append(lambda: torch.set_num_threads(before))

    def _config_record(self):
        return {**super()._config_record(), "torch_version": torch.__version__}

    def build(self, actor_critic, ac_kwargs):
        """The actor-critic with its initial weights, the same on every process."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seeds.integer("init"))
            ac = actor_critic(self.observation_space, self.action_space, **ac_kwargs)
        ac.to(self.device)
        sync_params(ac)
        self.ac = ac
        self.policy = make_policy(ac, self.device)
        self.logger.setup_pytorch_saver(ac, policy_meta=self.policy_meta())
        torch.manual_seed(self.seeds.integer("global"))
        self.track(ac=ac)
        return ac

    def check_parameters(self):
        """Name the first parameter that is not finite, before it is written anywhere.

        The statistics of our own filters count too; a user's buffers may hold what they like.
        """
        numbers = dict(self.ac.named_parameters())
        for prefix, module in self.ac.named_modules():
            if isinstance(module, ObsFilter | ReturnFilter):
                numbers.update(module.named_buffers(prefix))
        for name, p in numbers.items():
            if not torch.isfinite(p).all():
                raise TrainingDiverged(
                    f"the parameter {name} is not finite after epoch {self.epoch - 1}, so "
                    f"{self.algo} stopped; the last good checkpoint is kept in {self.output_dir}"
                )

    def _restore(self, state):
        super()._restore(state)
        # It acts through a copy of the weights, and the epoch may have been half done.
        self.policy = make_policy(self.ac, self.device)

    def _global_state(self):
        state = {**super()._global_state(), "torch": torch.get_rng_state()}
        if self.device.type == "cuda":
            state["cuda"] = torch.cuda.get_rng_state(self.device)
        return state

    def _set_global_state(self, state):
        super()._set_global_state(state)
        torch.set_rng_state(state["torch"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda"], self.device)
