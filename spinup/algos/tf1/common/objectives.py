"""Gradient steps of on-policy updates in a graph, on one shard or many.

On-policy updates average the gradients of all shards before the step. An `Objective` contains the
functions of one loss:

    v_loss = objective(compute_loss_v(ac, batch), batch, vf_optimizer)
    grads = [v_loss.gradient(batch)["grad"] for batch in batches]  # one batch per shard
    v_loss.step({"grad": shard_mean(grads, shards)})
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from spinup.algos.tf1.common.graph import Function
from spinup.utils.errors import SpinupError
from spinup.utils.tf import flat_concat, split_like, tf


def _all_gradients(loss):
    """Return the gradients of `loss`, and the variables on which it depends."""
    params = tf.trainable_variables()
    grads = tf.gradients(loss, params)
    found = [(g, p) for g, p in zip(grads, params, strict=True) if g is not None]
    if not found:
        raise SpinupError(
            "a loss depends on no trainable variable, so there is nothing to learn: build the "
            "tensors that actor_critic returns with tf.get_variable"
        )
    return zip(*found, strict=True)


class Objective(NamedTuple):
    """The functions of one loss, for batches of arrays."""

    value: Function  # batch -> loss and info, as a dict
    gradient: Function  # batch -> gradient as one vector, and info
    step: Function | None  # takes a gradient step with {"grad": vector}
    params: Sequence[Any]  # the variables that the gradient refers to


def objective(loss, batch, optimizer=None, max_grad_norm=None):
    """Build the functions of a loss, a tensor or a pair (loss, info) of tensors.

    Gradients are clipped to `max_grad_norm` before a step; None does not clip. Without an
    optimizer, there is no `step`.
    """
    loss, info = loss if isinstance(loss, tuple) else (loss, {})
    grads, params = _all_gradients(loss)
    flat = grad = tf.placeholder(tf.float32, (None,))
    if max_grad_norm is not None:
        grad = flat * tf.minimum(max_grad_norm / (tf.norm(flat) + 1e-6), 1.0)
    step = optimizer and optimizer.apply(split_like(grad, params), params)
    return Objective(
        Function(batch, {"loss": loss, **info}),
        Function(batch, {"grad": flat_concat(grads), **info}),
        step and Function({"grad": flat}, [], [step]),
        params,
    )


def shard_mean(parts, shards):
    """Average one array per local shard over all shards, in shard order."""
    return parts[0] if shards.count == 1 else shards.mean([np.asarray(part) for part in parts])


def evaluate(objective, batches, shards):
    """Compute loss and info over all shards."""
    parts, names = [], []
    for batch in batches:
        found = objective.value(batch)
        names = list(found)
        parts.append(np.array(list(found.values()), np.float32))
    mean = shard_mean(parts, shards)
    return mean[0], dict(zip(names[1:], mean[1:], strict=True))


def gradient_step(objective, batches, shards):
    """Take one step with the gradient of the mean loss over all shards."""
    grads = [objective.gradient(batch)["grad"] for batch in batches]
    objective.step({"grad": shard_mean(grads, shards)})
