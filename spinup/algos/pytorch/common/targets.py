"""Slowly moving target networks."""

import copy

import torch


def target_copy(ac):
    """Copy the network without gradients; only `polyak_update` changes the copy."""
    return copy.deepcopy(ac).requires_grad_(False)


def polyak_update(ac, ac_targ, polyak):
    """Set ac_targ <- polyak * ac_targ + (1 - polyak) * ac, for all parameters in one call."""
    with torch.no_grad():
        if torch.compiler.is_compiling():
            for p_targ, p in zip(ac_targ.parameters(), ac.parameters(), strict=True):
                p_targ.lerp_(p, 1 - polyak)
            return
        torch._foreach_lerp_(list(ac_targ.parameters()), list(ac.parameters()), 1 - polyak)
