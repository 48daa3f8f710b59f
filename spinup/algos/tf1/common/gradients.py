"""Gradient steps in a graph.

step = q_optimizer.minimize(loss_q, q_vars)    # an operation: run it to take a step
"""

import numpy as np

from spinup.algos.tf1.common.graph import Function, require_graph
from spinup.utils.tf import tf


class Adam:
    """Adam (Kingma and Ba 2015, algorithm 1): the same step as torch's, up to rounding.

    TensorFlow's own optimizer adds epsilon before the bias correction, the paper and torch after
    it, so the same epsilon would mean different steps.
    """

    def __init__(self, lr, name, betas=(0.9, 0.999), eps=1e-8):
        self.name, self.betas, self.eps = name, betas, eps
        with tf.variable_scope(f"optimizers/{name}"):
            self.lr = _slot("lr", (), lr)
            value = tf.placeholder(tf.float32, ())
            self._set_lr = Function({"lr": value}, [], [self.lr.assign(value).op])

    def set_lr(self, lr):
        """Change the learning rate."""
        self._set_lr({"lr": np.float32(lr)})

    def minimize(self, loss, params):
        """Return the operation that takes one step along the gradient of `loss`."""
        return self.apply(gradients(loss, params), params)

    def apply(self, grads, params):
        """Return the operation that takes one step with these gradients."""
        beta1, beta2 = self.betas
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
                        lr=self.lr.read_value(),
                        beta1=beta1,
                        beta2=beta2,
                        epsilon=epsilon,
                        grad=grad,
                    )
                    for grad, p in zip(grads, params, strict=True)
                )
            )


def _slot(name, shape, value=0.0):
    """Return one of the optimizer's variables."""
    start = tf.constant_initializer(value)
    return tf.get_variable(name, shape, tf.float32, start, trainable=False, use_resource=True)


def gradients(loss, params):
    """Return the gradients, zeros where the loss does not depend on a parameter."""
    require_graph()
    grads = tf.gradients(loss, params)
    return [tf.zeros_like(p) if g is None else g for g, p in zip(grads, params, strict=True)]
