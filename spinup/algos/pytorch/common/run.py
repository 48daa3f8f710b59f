"""The torch-specific part of a training run (see `Run`)."""

import contextlib
import functools
import os

import torch
from torch import nn

from spinup.algos.pytorch.common.layers import ObsFilter, ReturnFilter
from spinup.envs.spaces import is_image
from spinup.parallel.pytorch import sync_params
from spinup.runs.run import Run, TrainingDiverged
from spinup.utils.errors import SpinupError

_READING = (
    "encoder",
    "normalize_obs",
    "share_encoder",
)  # entries of ac_kwargs that say how images are read
# If batch_size x widest layer is at least this, a second thread pays off (docs/adr/0008).
WORTH_A_THREAD = 1 << 14


def _makes_module(activation):
    try:
        return isinstance(activation(), nn.Module)
    except TypeError:  # not callable, or it wants a tensor
        return False


def _cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class TorchRun(Run):
    """A run whose networks are torch modules on one device."""

    backend = "pytorch"

    def _choose_device(self):
        try:  # 'auto' is decided when the networks are there
            name = self.config["device"]
            self.device = torch.device("cpu" if name == "auto" else name)
        except RuntimeError as error:
            raise SpinupError(
                f"device={self.config['device']!r} does not exist: use cpu, cuda, mps or auto"
            ) from error
        kind = self.device.type
        there = torch.backends.mps if kind == "mps" else getattr(torch, kind)
        if not there.is_available():
            raise SpinupError(f"device='{kind}' needs a GPU, and torch sees none: use device='cpu'")
        self._check_graph(name)

    def _check_graph(self, device):
        if self.config.get("compile") == "graph" and not device.startswith(("cuda", "auto")):
            raise SpinupError("compile='graph' needs device='cuda': use compile=True or False")

    def _make_streams(self, threads):
        from spinup.runs.arguments.networks import check_networks

        super()._make_streams(threads)
        asked = {k: v for k, v in self.config["ac_kwargs"].items() if k in _READING}
        such_as = "a class of modules, such as torch.nn.ReLU"
        ours = check_networks(self.config, self.action_space, _makes_module, such_as)
        special = asked.get("encoder", "auto") != "auto" or asked.get("share_encoder")
        if ours and (special or is_image(self.observation_space)):
            from spinup.algos.pytorch.common.images import check_encoder

            if asked.get("share_encoder") and self.algo != "ppo":
                raise SpinupError(
                    f"share_encoder=True is for ppo, not for {self.algo}: leave it out"
                )
            check_encoder(self.observation_space, **asked)

    def _limit_threads(self):
        super()._limit_threads()
        before = torch.get_num_threads()
        torch.set_num_threads(self.num_threads)
        self.closers.append(lambda: torch.set_num_threads(before))

    def _config_record(self):
        return {**super()._config_record(), "torch_version": torch.__version__}

    def build(self, actor_critic, ac_kwargs):
        """Build the actor-critic, with the same initial weights on every process."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seeds.integer("init"))
            ac = actor_critic(self.observation_space, self.action_space, **ac_kwargs)
        if self.config["device"] == "auto":
            from spinup.algos.pytorch.common.devices import choose_device

            choose_device(self, ac)
        if self.device.type == "mps" and any(t.dtype is torch.float64 for t in ac.buffers()):
            raise SpinupError(
                "device='mps' has no 64-bit floats, which normalize_obs and normalize_ret need: "
                "leave these out, or use device='cpu'"
            )
        ac.to(self.device)
        cudnn = torch.backends.cudnn
        self.closers.append(functools.partial(setattr, cudnn, "deterministic", cudnn.deterministic))
        cudnn.deterministic = True  # otherwise, convolutions on a GPU may add in any order
        sync_params(ac)
        if not hasattr(ac, "action_space"):  # a user's class need not store it
            ac.action_space = self.action_space
        self.ac = ac
        if self.config["num_threads"] is None:
            self._decide_threads(ac)
        self.logger.setup_pytorch_saver(ac, policy_meta=self.policy_meta())
        torch.manual_seed(self.seeds.integer("global"))
        self.track(ac=ac)
        return ac

    def _decide_threads(self, ac):
        """Resolve `num_threads=None` from the sizes alone, so that reruns give the same bits."""
        widest = max((m.out_features for m in ac.modules() if isinstance(m, nn.Linear)), default=0)
        rows = self.config.get("batch_size", 0)
        if widths := [m.widest for m in ac.modules() if hasattr(m, "widest")]:  # encoders
            widest = max(widest, *widths)
            rows = rows or self.config.get("minibatch_size") or self.steps_per_shard
        work = widest * rows
        # Two threads need four cores: a thread that waits for a core also stalls the other one.
        self.config["num_threads"] = 2 if work >= WORTH_A_THREAD and _cores() >= 4 else 1
        self._limit_threads()
        self.save_config()

    @contextlib.contextmanager
    def evaluating(self):
        """Put the networks in evaluation mode (no dropout), as in a loaded policy, then back.

        Their buffers are restored, too: a user's `act` may change them.
        """
        modes = [(module, module.training) for module in self.ac.modules()]
        buffers = {name: buffer.clone() for name, buffer in self.ac.named_buffers()}
        self.ac.eval()
        try:
            yield
        finally:
            for module, training in modes:
                module.train(training)  # also changes its children, which come after it
            for name, buffer in self.ac.named_buffers():
                buffer.copy_(buffers[name])

    def gauges(self):
        """Return what measures the networks for `diagnostics.txt`."""
        from spinup.algos.pytorch.common.diagnostics import TorchGauges

        return TorchGauges(self)

    def seed_backend(self, rng):
        """Seed torch's global RNG, which networks sample from."""
        seed = int(rng.integers(2**63))
        torch.default_generator.manual_seed(seed)
        if self.device.type != "cpu":
            getattr(torch, self.device.type).manual_seed(seed)

    def join(self, parts):
        """Join tensors on any device into one vector there, without waiting for it; or arrays."""
        if isinstance(parts[0], torch.Tensor):
            return torch.cat([p.reshape(-1) for p in parts])
        return super().join(parts)

    def to_array(self, parts):
        """Join tensors on any device, and arrays, into one vector, with a single transfer."""
        arrays = [p for p in parts if not isinstance(p, torch.Tensor)]
        tensors = [p.reshape(-1) for p in parts if isinstance(p, torch.Tensor)]
        if tensors:  # the arrays come first: they were restored from a checkpoint
            arrays.append(torch.cat(tensors).cpu().numpy())
        return super().to_array(arrays)

    def check_parameters(self):
        """Before anything is saved, stop the run with an error if a parameter is not finite.

        Our own filters' statistics are checked too; a user's buffers may contain anything.
        """
        numbers = dict(self.ac.named_parameters())
        for prefix, module in self.ac.named_modules():
            if isinstance(module, ObsFilter | ReturnFilter):
                numbers.update(module.named_buffers(prefix))
        for name, p in numbers.items():
            if not torch.isfinite(p).all():
                raise TrainingDiverged(
                    f"the parameter {name} is not finite, so {self.algo} stopped; the last good "
                    f"checkpoint is in {self.output_dir}"
                )

    def global_state(self):
        """Return the states of the global RNGs, including torch's."""
        state = {**super().global_state(), "torch": torch.get_rng_state()}
        if (kind := self.device.type) != "cpu":
            state[kind] = getattr(torch, kind).get_rng_state(self.device)
        return state

    def set_global_state(self, state):
        """Restore the global RNGs, including torch's."""
        super().set_global_state(state)
        torch.set_rng_state(state["torch"])
        if (kind := self.device.type) != "cpu":
            getattr(torch, kind).set_rng_state(state[kind], self.device)
