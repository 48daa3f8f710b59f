"""The TensorFlow-specific part of a training run (see `Run`)."""

import numpy as np

from spinup.algos.tf1.common import layers
from spinup.algos.tf1.common.acting import NetPolicy, make_policy
from spinup.algos.tf1.common.graph import Function, records, use_seeds
from spinup.algos.tf1.common.networks import ActorCritic, Networks, outputs
from spinup.envs.spaces import is_image
from spinup.parallel.mpi import num_procs
from spinup.runs.run import Run, TrainingDiverged
from spinup.utils.errors import SpinupError
from spinup.utils.tf import tf

ON_POLICY = ("pi", "logp", "logp_pi", "v")
TRUST_REGION = ("pi", "logp", "logp_pi", "info", "info_phs", "d_kl", "v")


class TfRun(Run):
    """A run whose networks are in a graph of their own, with one session.

    The algorithm builds the whole graph before `epochs()`, which starts the session.
    """

    backend = "tf1"

    def _choose_device(self):
        kind = self.config["device"].partition(":")[0]
        if kind in ("mps", "auto"):
            raise SpinupError(f"device='{kind}' is only for the PyTorch backend: use device='cpu'")
        if kind == "cuda" and not tf.config.list_physical_devices("GPU"):
            raise SpinupError(
                "device='cuda' needs a GPU, and TensorFlow sees none: use device='cpu'"
            )
        self.device = self.config["device"].replace("cuda", "/gpu")

    def _make_streams(self, threads):
        from spinup.runs.arguments.networks import check_networks

        super()._make_streams(threads)
        ours = check_networks(
            self.config,
            self.action_space,
            lambda x: x is None or callable(x),
            "a function, such as tf.nn.relu",
        )
        if ours and is_image(self.observation_space):
            raise SpinupError(
                f"{self.algo}_tf1 has no encoder for images: use {self.algo}_pytorch, pass your "
                "own actor_critic, or wrap the environment in FlattenObservation"
            )

    def _open(self):
        super()._open()
        if self.config["num_threads"] is None:
            self.config["num_threads"] = 1
            self.save_config()
        self.graph = tf.Graph()
        self.graph.seed = self.seeds.integer("init")  # of what `use_seeds` cannot replace
        self.session = tf.Session(graph=self.graph, config=self._session_config())
        self.noise = np.random.default_rng(0)  # draws the seeds of an update's random ops
        for context in (self.graph.as_default(), self.session.as_default(), tf.device(self.device)):
            context.__enter__()
            self.closers.append(lambda context=context: context.__exit__(None, None, None))
        self.closers.insert(0, self.session.close)

    def _session_config(self):
        config = tf.ConfigProto(
            intra_op_parallelism_threads=self.num_threads,
            inter_op_parallelism_threads=-1,  # run operations in the calling thread
        )
        config.gpu_options.allow_growth = True
        return config

    def _config_record(self):
        return {**super()._config_record(), "tensorflow_version": tf.__version__}

    # ---- building the graph

    def build(self, actor_critic, ac_kwargs, names=ON_POLICY):
        """Build the actor-critic at new placeholders; `names` are the tensors that it returns."""
        kwargs = {**ac_kwargs, "action_space": self.action_space}
        obs = layers.placeholder_from_space(self.observation_space)
        act = layers.placeholder_from_space(self.action_space)
        if self.row.on_policy:
            with tf.variable_scope("", use_resource=True):
                found = outputs(actor_critic(obs, act, **kwargs), names)
            missing = {"info": {}, "info_phs": {}, "d_kl": None}
            self.ac = ActorCritic(obs, act, **{**missing, **found})
        else:
            self.ac = Networks(actor_critic, kwargs, "main", obs, act, names)
            found = self.ac.built
        self._found = {k: x for k, x in found.items() if isinstance(x, tf.Tensor)}
        return self.ac

    def batch(self, *names):
        """Return the placeholders of a batch: `obs`, `act` and one number per row for each name."""
        rows = {name: layers.placeholder() for name in names if name != "obs2"}
        if "obs2" in names:
            rows["obs2"] = layers.placeholder_from_space(self.observation_space)
        return {"obs": self.ac.obs, "act": self.ac.act, **rows}

    # ---- the session

    def epochs(self):
        """Start the session, then yield the number of each remaining epoch (see `Run.epochs`)."""
        self._start()
        yield from super().epochs()

    def _start(self):
        variables = tf.global_variables()
        start = tf.group(*(v.initializer for v in variables))
        later = records(self.graph, "start")
        self.variables = Variables(variables)
        self.track(variables=self.variables)
        filters = [v for v in variables if "_filter/" in v.name]
        self._must_be_finite = {v.op.name for v in (*tf.trainable_variables(), *filters)}
        saved = self._saver_arguments()
        unseeded = use_seeds(self.graph)
        if unseeded:
            self.logger.log(
                f"This run cannot be resumed exactly: actor_critic draws random numbers with "
                f"{', '.join(unseeded)}, whose state cannot be saved.",
                "yellow",
            )
        init = self.seeds.generator("init")
        Function({}, [], [start])({}, init)
        if later:
            Function({}, [], later)({})
        self.variables.sync()
        self.logger.setup_tf_saver(self.session, **saved, policy_meta=self.policy_meta())

    def _saver_arguments(self):
        """Return what is saved as the policy; called before the graph is complete."""
        policy, made = layers.known(self._found["pi"]), make_policy(self.ac)
        if policy is not None:
            self._found["mu"] = policy.mode
        return {
            "inputs": {"x": self.ac.obs, "a": self.ac.act},
            "outputs": self._found,
            "actor": made.actor if isinstance(made, NetPolicy) else None,
        }

    def gauges(self):
        """Return what measures the networks for `diagnostics.txt`."""
        from spinup.algos.tf1.common.diagnostics import TfGauges

        return TfGauges(self)

    def seed_backend(self, rng):
        """Start a new sequence of seeds for the random ops of updates."""
        self.noise = np.random.default_rng(int(rng.integers(2**63)))

    def check_parameters(self):
        """Before anything is saved, stop the run with an error if a parameter is not finite."""
        for name, value in self.variables.state_dict().items():
            if name in self._must_be_finite and not np.isfinite(value).all():
                raise TrainingDiverged(
                    f"the parameter {name} is not finite, so {self.algo} stopped; the last good "
                    f"checkpoint is in {self.output_dir}"
                )


class Variables:
    """All variables of a graph: reading them, and setting them, by name."""

    def __init__(self, variables):
        self.names = [v.op.name for v in variables]
        self._read = Function({}, [v.read_value() for v in variables])
        values = {v.op.name: tf.placeholder(v.dtype.base_dtype, v.shape) for v in variables}
        self._get = {v.op.name: Function({}, v.read_value()) for v in variables}
        self._set = {
            v.op.name: Function({"value": values[v.op.name]}, [], [v.assign(values[v.op.name]).op])
            for v in variables
        }

    def get(self, name):
        """Return one variable's value."""
        return self._get[name]({})

    def set(self, values):
        """Set some of the variables."""
        for name, value in values.items():
            self._set[name]({"value": value})

    def state_dict(self):
        """Return every variable's value."""
        return dict(zip(self.names, self._read({}), strict=True))

    def load_state_dict(self, state):
        """Set every variable."""
        shapes = {name: np.shape(value) for name, value in self.state_dict().items()}
        saved = {name: np.shape(value) for name, value in state.items()}
        different = dict(shapes.items() ^ saved.items())
        if different:
            raise SpinupError(
                f"the saved networks have other variables than this run's, such as "
                f"{min(different)}: resume with the same actor_critic, or start a new run"
            )
        self.set(state)

    def sync(self):
        """Copy process 0's values to every process."""
        if num_procs() > 1:
            from spinup.parallel.tf import of_process_0

            state = self.state_dict()
            arrays = of_process_0(list(state.values()))
            self.load_state_dict(dict(zip(state, arrays, strict=True)))
