"""Slowly moving target networks."""

import copy

import torch
from torch import nn


def target_copy(ac, *parts):
    """Copy the network, or only the named parts of it, without gradients.

    Only `polyak_update` changes the copy.
    """
    network = Parts({name: getattr(ac, name) for name in parts}) if parts else ac
    return copy.deepcopy(network).requires_grad_(False)


class Parts(nn.ModuleDict):
    """Some parts of a network, as attributes with the names that they have there."""

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Restore the parts from their own state or, as old checkpoints have it, the network's."""
        own = self.state_dict()
        state_dict = {name: x for name, x in state_dict.items() if name in own}
        return super().load_state_dict(state_dict, strict, assign)


def polyak_update(ac, ac_targ, polyak):
    """Set ac_targ <- polyak * ac_targ + (1 - polyak) * ac, for all of ac_targ's parameters."""
    named = dict(ac.named_parameters(remove_duplicate=False))
    pairs = [(p_targ, named[name]) for name, p_targ in ac_targ.named_parameters()]
    with torch.no_grad():
        if torch.compiler.is_compiling():
            for p_targ, p in pairs:
                p_targ.lerp_(p, 1 - polyak)
            return
        torch._foreach_lerp_(*map(list, zip(*pairs, strict=True)), 1 - polyak)
