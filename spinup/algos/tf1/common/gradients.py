"""Gradient steps in a graph: Adam with torch's formula, and gradients as one flat vector.

    step = q_optimizer.minimize(loss_q, q_vars)    # an operation: run it to take a step

On-policy updates average the gradients of all shards before the step. `flat_gradient` returns one
vector, `shard_mean` averages it over shards in NumPy, and `apply_flat` takes the step.
"""

import numpy as np

from spinup.utils.tf import tf


class Adam:
    """Adam (Kingma and Ba 2015, algorithm 1), with the rounding of torch's as far as possible.

    TensorFlow's own optimizer adds epsilon before the bias correction, the paper and torch after
    it, so the same epsilon would mean different steps.
    """

    def __init__(self, lr, name="adam", betas=(0.9, 0.999), eps=1e-8):
        self.lr, self.name, self.betas, self.eps = lr, name, betas, eps

    def minimize(self, loss, params):
        """Return the operation that takes one step along the gradient of `loss`."""
        return self.apply(gradients(loss, params), params)

    def apply(self, grads, params):
        """Return the operation that takes one step with these gradients."""
        (beta1, beta2), lr = self.betas, tf.convert_to_tensor(self.lr, tf.float32)
        with tf.variable_scope(f"optimizers/{self.name}", reuse=tf.AUTO_REUSE):
            t = _slot("step", ()).assign_add(1.0)
            # The kernel computes lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + epsilon).
            power1, power2 = tf.pow(beta1, t), tf.pow(beta2, t)
            epsilon = self.eps * tf.sqrt(1 - power2)
            return tf.group(
                *(
                    tf.raw_ops.ResourceApplyAdam(
                        var=p.handle,
                        m=_slot(f"{p.op.name}/m", p.shape).handle,
                        v=_slot(f"{p.op.name}/v", p.shape).handle,
                        beta1_power=power1,
                        beta2_power=power2,
                        lr=lr,
                        beta1=beta1,
                        beta2=beta2,
                        epsilon=epsilon,
                        grad=grad,
                    )
                    for grad, p in zip(grads, params, strict=True)
                )
            )


def _slot(name, shape):
    """Return one of the optimizer's variables, which starts at zero."""
    return tf.get_variable(
        name, shape, tf.float32, tf.zeros_initializer(), trainable=False, use_resource=True
    )


def gradients(loss, params):
    """Return the gradients, zeros where the loss does not depend on a parameter."""
    grads = tf.gradients(loss, params)
    return [tf.zeros_like(p) if g is None else g for g, p in zip(grads, params, strict=True)]


def trainable(loss):
    """Return the variables that the gradient of `loss` changes."""
    params = tf.trainable_variables()
    return [p for g, p in zip(tf.gradients(loss, params), params, strict=True) if g is not None]


def flatten(xs):
    """Concatenate all elements into one vector."""
    return tf.concat([tf.reshape(x, [-1]) for x in xs], 0)


def unflatten(flat, like):
    """Split a vector into tensors shaped like those in `like`."""
    sizes = [int(np.prod(x.shape.as_list())) for x in like]
    return [
        tf.reshape(piece, x.shape) for piece, x in zip(tf.split(flat, sizes), like, strict=True)
    ]


def flat_gradient(loss, params):
    """Return the gradient as one vector."""
    return flatten(gradients(loss, params))


def apply_flat(optimizer, flat, params, max_grad_norm=None):
    """Return the operation that takes a step with a flat gradient, clipped to `max_grad_norm`."""
    if max_grad_norm is not None:
        flat = flat * tf.minimum(max_grad_norm / (tf.norm(flat) + 1e-6), 1.0)
    return optimizer.apply(unflatten(flat, params), params)


def shard_mean(parts, shards):
    """Average one array per local shard over all shards, in shard order."""
    return parts[0] if shards.count == 1 else shards.mean([np.asarray(part) for part in parts])


def evaluate(loss, batches, shards):
    """Compute a loss and its info, a `Function` that returns both as a dict, over all shards."""
    parts, names = [], []
    for batch in batches:
        found = loss(batch)
        names = list(found)
        parts.append(np.array(list(found.values()), np.float32))
    return dict(zip(names, shard_mean(parts, shards), strict=True))
