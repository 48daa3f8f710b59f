"""Wrong command lines, each with the whole sentence it ends in."""

import shlex
import sys

import pytest

from spinup import registry, run
from spinup.grids.experiments import ExperimentGrid

REFUSED = [
    ("pppo", "'pppo' is not a command: 'spinup help' lists them; did you mean ppo?"),
    ("ploot", "'ploot' is not a command: 'spinup help' lists them; did you mean plot?"),
    ("ppo_jax", "'ppo' has no backend 'jax': it has pytorch, tf1"),
    ("PPO", "'PPO' is not a command: 'spinup help' lists them; did you mean ppo?"),
    ("-x", "'-x' is not a command: 'spinup help' lists them"),
    ("ppo", "ppo needs an environment: add one such as --env CartPole-v1"),
    (
        "ppo CartPole-v1",
        "'CartPole-v1' is not preceded by a flag: write --env CartPole-v1 if it is the environment",
    ),
    ("ppo --gamma 0.9", "ppo needs an environment: add one such as --env CartPole-v1"),
    ("ppo --env", "'--env' needs a value"),
    ("ppo --env ''", "'--env' needs a value"),
    (
        "ppo --env CartPol-v1",
        "there is no environment 'CartPol-v1': ids of other packages are written "
        "module:Name-v0, and gymnasium.pprint_registry() lists those that are registered; did "
        "you mean CartPole-v1?",
    ),
    (
        "ppo --env cartpole-v1",
        "there is no environment 'cartpole-v1': ids of other packages are written "
        "module:Name-v0, and gymnasium.pprint_registry() lists those that are registered; did "
        "you mean CartPole-v1?",
    ),
    (
        "ppo --env CartPole-v9",
        "there is no environment 'CartPole-v9': ids of other packages are written "
        "module:Name-v0, and gymnasium.pprint_registry() lists those that are registered; did "
        "you mean CartPole-v1?",
    ),
    (
        "ppo --env nosuchmodule:Thing-v0",
        "nosuchmodule:Thing-v0 cannot be made because there is no module 'nosuchmodule' on "
        "the path: install it, or run where it can be imported",
    ),
    (
        "ppo --env :NoSuchGameAtAll-v0",
        "there is no environment ':NoSuchGameAtAll-v0': ids of other packages are written "
        "module:Name-v0, and gymnasium.pprint_registry() lists those that are registered",
    ),
    (
        "ppo --env 'Cart Pole'",
        "'Cart Pole' is not an environment id: write [module:][namespace/]Name-v0, such as "
        "CartPole-v1; did you mean CartPole-v1?",
    ),
    (
        "ppo --env CartPole-v1 --env_kwargs:gravity 9.8",
        "CartPole-v1 has no argument 'gravity' (it takes render_mode, sutton_barto_reward): "
        "correct env_kwargs",
    ),
    (
        "ppo --env Pendulum-v1 --env_kwargs:gg 9.8",
        "Pendulum-v1 has no argument 'gg' (it takes g, render_mode): correct env_kwargs; did "
        "you mean g?",
    ),
    (
        "ppo --env FrozenLake-v1 --env_kwargs:map_name 5x5",
        "FrozenLake-v1 cannot be made with map_name='5x5' (KeyError: '5x5'): correct env_kwargs",
    ),
    (
        "ppo --env CartPole-v1 --seed 0 1 --logger_kwargs:output_dir out",
        "two runs of the grid would both be in out: leave out logger_kwargs:output_dir, or use "
        "a different one for every run",
    ),
    (
        "ppo --env CartPole-v1 --epochs inf",
        "'--epochs' must be a whole number, at least 0, not inf",
    ),
    (
        "ppo --env CartPole-v1 --ac_kwargs:hidden-sizes 8",
        "'ac_kwargs' has no entry 'hidden-sizes': it has hidden_sizes, activation, "
        "normalize_obs, normalize_ret, orthogonal_init, encoder, share_encoder, log_std_init; "
        "did you mean hidden_sizes?",
    ),
    (
        "ppo --env CartPole-v1 --env_kwargs 3",
        "'--env_kwargs' is a dict: set its entries, as in --env_kwargs:KEY VALUE",
    ),
    (
        "ppo --env CartPole-v1 --env_kwargs:max_episode_steps 0",
        "max_episode_steps must be a positive integer (or -1 for none), not 0",
    ),
    (
        "dqn --env Pendulum-v1",
        "dqn cannot use the action space Box(-2.0, 2.0, (1,), float32), which is a Box: it "
        "supports Discrete actions with at least one element",
    ),
    (
        "acer --env spinup/ProbeActionMultiBinary-v0",
        "acer cannot use the action space MultiBinary(3), which is a MultiBinary: it supports "
        "Discrete and Box (floating-point) actions with at least one element",
    ),
    (
        "ddpg --env CartPole-v1",
        "ddpg cannot use the action space Discrete(2), which is a Discrete: it supports Box "
        "(floating-point) actions with at least one element",
    ),
    (
        "td3 --env CartPole-v1",
        "td3 cannot use the action space Discrete(2), which is a Discrete: it supports Box "
        "(floating-point) actions with at least one element",
    ),
    (
        "her --env CartPole-v1",
        "her needs a goal environment, whose observations are a dict of observation, "
        "achieved_goal and desired_goal, but here the observations are not a dict: use one "
        "such as spinup/BitFlip-v0 or Gymnasium-Robotics' FetchReach",
    ),
    (
        "dqn --env CartPole-v1 Pendulum-v1",
        "dqn cannot use the action space Box(-2.0, 2.0, (1,), float32), which is a Box: it "
        "supports Discrete actions with at least one element",
    ),
    (
        "ppo --env CartPole-v1 --gama 0.9",
        "'--gama' is not an argument of ppo: add --help to see them all; did you mean --gamma?",
    ),
    (
        "ppo --env CartPole-v1 --step_per_epoch 5",
        "'--step_per_epoch' is not an argument of ppo: add --help to see them all; did you mean"
        " --steps_per_epoch?",
    ),
    (
        "ppo --env CartPole-v1 --Gamma 1",
        "'--Gamma' is not an argument of ppo: add --help to see them all; did you mean --gamma?",
    ),
    (
        "ppo --env CartPole-v1 --polyak 0.9",
        "'--polyak' is not an argument of ppo: add --help to see them all",
    ),
    (
        "sac --env Pendulum-v1 --pi_lr 0.001",
        "'--pi_lr' is not an argument of sac: add --help to see them all; did you mean --lr?",
    ),
    (
        "ppo --env CartPole-v1 --zzzzzz 1",
        "'--zzzzzz' is not an argument of ppo: add --help to see them all",
    ),
    (
        "ppo --env CartPole-v1 -gamma 0.9",
        "'-gamma' is not a flag: flags begin with two dashes, as in --gamma 0.99",
    ),
    (
        "ppo --env CartPole-v1 -- 0.9",
        "'--' is not a valid flag: write --key, --key[shorthand] or --key:entry",
    ),
    (
        "ppo --env CartPole-v1 ---gamma 0.9",
        "'---gamma' is not a valid flag: write --key, --key[shorthand] or --key:entry",
    ),
    (
        "ppo --env CartPole-v1 '--gamma[' 0.9",
        "'--gamma[' is not a valid flag: write --key, --key[shorthand] or --key:entry",
    ),
    (
        "ppo --env CartPole-v1 '--gamma[a/b]' 0.9 0.8",
        "the shorthand of 'gamma' must start with a letter and contain only letters, digits, "
        "'-' and '_', unlike 'a/b'",
    ),
    (
        "ppo --env CartPole-v1 '--exp_name[e]' x",
        "'--exp_name' is never part of a run's name: leave out the shorthand",
    ),
    (
        "ppo --env CartPole-v1 --gamma high",
        "'--gamma' must be a number between 0 and 1, not 'high'",
    ),
    ("ppo --env CartPole-v1 --gamma nan", "'--gamma' must be a number between 0 and 1, not 'nan'"),
    ("ppo --env CartPole-v1 --gamma True", "'--gamma' needs a value (its default is 0.99)"),
    ("ppo --env CartPole-v1 --gamma", "'--gamma' needs a value (its default is 0.99)"),
    ("ppo --env CartPole-v1 --gamma None", "'--gamma' must be a number between 0 and 1, not None"),
    (
        "ppo --env CartPole-v1 --gamma \"__import__('os').getcwd()\"",
        "'--gamma' must be a number between 0 and 1, not \"__import__('os').getcwd()\"",
    ),
    (
        "ppo --env CartPole-v1 --epochs 2.5",
        "'--epochs' must be a whole number, at least 0, not 2.5",
    ),
    (
        "ppo --env CartPole-v1 --epochs 007",
        "'--epochs' must be a whole number, at least 0, not '007'",
    ),
    ("ppo --env CartPole-v1 --epochs", "'--epochs' needs a value (its default is 50)"),
    (
        "ppo --env CartPole-v1 --shards few",
        "'--shards' must be a whole number, at least 1, or None, not 'few'",
    ),
    ("ppo --env CartPole-v1 --shards", "'--shards' needs a value (its default is None)"),
    (
        "ppo --env CartPole-v1 --anneal_lr maybe",
        "'--anneal_lr' must be True or False, not 'maybe'",
    ),
    (
        "ppo --env CartPole-v1 --vector threads",
        "'--vector' must be 'sync' or 'async', not 'threads'",
    ),
    (
        "trpo --env CartPole-v1 --algo ngp",
        "'--algo' must be 'trpo' or 'npg', not 'ngp'",
    ),
    (
        "dqn --env CartPole-v1 --loss hubr",
        "'--loss' must be 'huber' or 'squared', not 'hubr'",
    ),
    (
        "her --env spinup/BitFlip-v0 --strategy futre",
        "'--strategy' must be 'future', 'final', 'episode' or 'random', not 'futre'; did you "
        "mean future?",
    ),
    (
        "ppo --env CartPole-v1 --device gpu",
        "'--device' must be 'cpu', 'cuda', 'mps' or 'auto', not 'gpu'",
    ),
    ("ppo --env CartPole-v1 --gamma 1.5", "'--gamma' must be a number between 0 and 1, not 1.5"),
    ("ppo --env CartPole-v1 --gamma -0.1", "'--gamma' must be a number between 0 and 1, not -0.1"),
    (
        "ppo --env CartPole-v1 --gamma 0.9 1.1",
        "'--gamma' must be a number between 0 and 1, not 1.1",
    ),
    ("ppo --env CartPole-v1 --lam 2", "'--lam' must be a number between 0 and 1, not 2"),
    (
        "ppo --env CartPole-v1 --pi_lr -1e-3",
        "'--pi_lr' must be a number, zero or more, not -0.001",
    ),
    ("ppo --env CartPole-v1 --vf_lr inf", "'--vf_lr' must be a number, zero or more, not inf"),
    (
        "ppo --env CartPole-v1 --clip_ratio -0.2",
        "'--clip_ratio' must be a number, zero or more, not -0.2",
    ),
    (
        "ppo --env CartPole-v1 --target_kl -1",
        "'--target_kl' must be a number, zero or more, or None, not -1",
    ),
    (
        "ppo --env CartPole-v1 --target_kl small",
        "'--target_kl' must be a number, zero or more, or None, not 'small'",
    ),
    (
        "ppo --env CartPole-v1 --minibatch_size 0",
        "'--minibatch_size' must be a whole number, at least 1, or None, not 0",
    ),
    (
        "ppo --env CartPole-v1 --minibatch_size 1.5",
        "'--minibatch_size' must be a whole number, at least 1, or None, not 1.5",
    ),
    (
        "ppo --env CartPole-v1 --max_grad_norm 0",
        "'--max_grad_norm' must be a number above 0, or None, not 0",
    ),
    ("ppo --env CartPole-v1 --ent_coef -1", "'--ent_coef' must be a number, zero or more, not -1"),
    (
        "ppo --env CartPole-v1 --epochs 0",
        "'--epochs' must be at least 1: a run of 0 epochs trains nothing",
    ),
    ("ppo --env CartPole-v1 --steps 0", "'--steps' must be a whole number, at least 1, not 0"),
    ("ppo --env CartPole-v1 --seed -1", "'--seed' must be a whole number, at least 0, not -1"),
    (
        "ppo --env CartPole-v1 --max_ep_len 0",
        "'--max_ep_len' must be a whole number, at least 1, or inf, not 0",
    ),
    (
        "ppo --env CartPole-v1 --save_freq 0",
        "'--save_freq' must be a whole number, at least 1, not 0",
    ),
    (
        "ppo --env CartPole-v1 --num_envs 0",
        "'--num_envs' must be a whole number, at least 1, not 0",
    ),
    (
        "ppo --env CartPole-v1 --num_envs 3",
        "steps_per_epoch=4000 does not divide among 3 environments (shards x num_envs): use a "
        "multiple of 3",
    ),
    (
        "ppo --env CartPole-v1 --num_threads 0",
        "'--num_threads' must be a whole number, at least 1, or None, not 0",
    ),
    (
        "vpg --env CartPole-v1 --train_v_iters -1",
        "'--train_v_iters' must be a whole number, at least 0, not -1",
    ),
    (
        "trpo --env CartPole-v1 --backtrack_coeff 2",
        "'--backtrack_coeff' must be a number between 0 and 1, not 2",
    ),
    (
        "trpo --env CartPole-v1 --cg_iters 0",
        "'--cg_iters' must be a whole number, at least 1, not 0",
    ),
    ("sac --env Pendulum-v1 --polyak 1.5", "'--polyak' must be a number between 0 and 1, not 1.5"),
    ("sac --env Pendulum-v1 --lr -1", "'--lr' must be a number, zero or more, not -1"),
    (
        "sac --env Pendulum-v1 --alpha -1",
        "'--alpha' must be a number, zero or more, or 'auto', not -1",
    ),
    (
        "sac --env Pendulum-v1 --alpha automatic",
        "'--alpha' must be a number, zero or more, or 'auto', not 'automatic'",
    ),
    (
        "sac --env Pendulum-v1 --batch_size 0",
        "'--batch_size' must be a whole number, at least 1, not 0",
    ),
    (
        "sac --env Pendulum-v1 --replay_size 0",
        "'--replay_size' must be a whole number, at least 1, not 0",
    ),
    (
        "sac --env Pendulum-v1 --replay_size 1e6 0.5",
        "'--replay_size' must be a whole number, at least 1, not 0.5",
    ),
    (
        "sac --env Pendulum-v1 --replay_size 1e6 10",
        "replay_size=10 is smaller than batch_size=100: use a replay_size of at least 100, or "
        "smaller batches",
    ),
    (
        "ppo --env CartPole-v1 --shards 4 --minibatch_size 3 --dry_run",
        "minibatch_size=3 has no row for some of the 4 shards: use at least 4, or None for the "
        "whole batch",
    ),
    (
        "sac --env Pendulum-v1 --update_every 0",
        "'--update_every' must be a whole number, at least 1, not 0",
    ),
    (
        "sac --env Pendulum-v1 --updates_per_step -1",
        "'--updates_per_step' must be a number, zero or more, not -1",
    ),
    (
        "ddpg --env Pendulum-v1 --act_noise -0.1",
        "'--act_noise' must be a number, zero or more, not -0.1",
    ),
    (
        "td3 --env Pendulum-v1 --policy_delay 0",
        "'--policy_delay' must be a whole number, at least 1, not 0",
    ),
    (
        "td3 --env Pendulum-v1 --noise_clip -1",
        "'--noise_clip' must be a number, zero or more, not -1",
    ),
    (
        "td3 --env Pendulum-v1 --start_steps -5",
        "'--start_steps' must be a whole number, at least 0, not -5",
    ),
    (
        "dqn --env CartPole-v1 --eps_end 1.1",
        "'--eps_end' must be a number between 0 and 1, not 1.1",
    ),
    ("dqn --env CartPole-v1 --n_step 0", "'--n_step' must be a whole number, at least 1, not 0"),
    (
        "acer --env CartPole-v1 --replay_ratio -1",
        "'--replay_ratio' must be a number, zero or more, not -1",
    ),
    ("her --env spinup/BitFlip-v0 --k -1", "'--k' must be a whole number, at least 0, not -1"),
    (
        "her --env spinup/BitFlip-v0 --base_kwargs:act_noise -1",
        "'--base_kwargs:act_noise' must be a number, zero or more, not -1",
    ),
    (
        "her --env spinup/BitFlip-v0 --base_kwargs 1",
        "'--base_kwargs' is a dict: set its entries, as in --base_kwargs:KEY VALUE",
    ),
    (
        "ppo --env CartPole-v1 --gamma 0.9 --gamma 0.8",
        "'--gamma' and '--gamma' set the same argument: put all its values after one flag",
    ),
    (
        "ppo --env CartPole-v1 --env_name Acrobot-v1",
        "'--env' and '--env_name' set the same argument: put all its values after one flag",
    ),
    (
        "ppo --env CartPole-v1 --hid 3 --ac_kwargs:hidden_sizes 4",
        "'--hid' and '--ac_kwargs:hidden_sizes' set the same argument: put all its values after"
        " one flag",
    ),
    (
        "ppo --env CartPole-v1 --hid '[32,' '32]'",
        "'[32,' after '--hid' is half a list: remove the spaces or quote the list",
    ),
    (
        "ppo --env CartPole-v1 --hid wide",
        "'--hid' must be a list of layer widths such as 64,64, or one width, not 'wide'",
    ),
    (
        "ppo --env CartPole-v1 --hid 0",
        "'--hid' must be a list of layer widths such as 64,64, or one width, not 0",
    ),
    (
        "ppo --env CartPole-v1 --hid 32,-1",
        "'--hid' must be a list of layer widths such as 64,64, or one width, not (32, -1)",
    ),
    ("ppo --env CartPole-v1 --hid", "'--hid' needs a value, such as 64,64"),
    ("ppo --env CartPole-v1 --l 0", "'--l' must be the number of layers, not 0"),
    (
        "ppo --env CartPole-v1 --hid 32,16 --l 2",
        "'--l' needs one width for all layers, as in --hid 64 --l 2",
    ),
    (
        "ppo --env CartPole-v1 --act tan",
        "'tan' is not a known activation: choose one of tanh, relu, elu, selu, gelu, silu, "
        "swish, leakyrelu, relu6, sigmoid, softplus, softsign; did you mean tanh?",
    ),
    ("ppo --env CartPole-v1 --act 5", "'--act' must be the name of an activation, not 5"),
    (
        "ppo --env CartPole-v1 --act torch.nn.Linear",
        "'torch.nn.Linear' is not a known activation: choose one of tanh, relu, elu, selu, "
        "gelu, silu, swish, leakyrelu, relu6, sigmoid, softplus, softsign",
    ),
    (
        "ppo --env CartPole-v1 --act os.system",
        "'os.system' is not a known activation: choose one of tanh, relu, elu, selu, gelu, "
        "silu, swish, leakyrelu, relu6, sigmoid, softplus, softsign",
    ),
    (
        "ppo --env CartPole-v1 --ac_kwargs:hiden_sizes 3",
        "'ac_kwargs' has no entry 'hiden_sizes': it has hidden_sizes, activation, "
        "normalize_obs, normalize_ret, orthogonal_init, encoder, share_encoder, log_std_init; "
        "did you mean hidden_sizes?",
    ),
    (
        "ppo --env CartPole-v1 --ac_kwargs:normalize_obs perhaps",
        "'--ac_kwargs:normalize_obs' must be True or False, not 'perhaps'",
    ),
    (
        "ppo --env CartPole-v1 --ac_kwargs 3",
        "'--ac_kwargs' is a dict: set its entries, as in --ac_kwargs:KEY VALUE",
    ),
    (
        "ppo --env CartPole-v1 --ac_kwargs: 3",
        "'--ac_kwargs:' is not a valid flag: write --key, --key[shorthand] or --key:entry",
    ),
    (
        "ppo --env CartPole-v1 --gamma:x 3",
        "'--gamma:x' names an entry, but 'gamma' is not a dict: write --gamma",
    ),
    (
        "ppo --env CartPole-v1 --logger_kwargs:outputdir x",
        "'logger_kwargs' has no entry 'outputdir': it has output_dir, output_fname, exp_name, "
        "resume, overwrite, quiet, sinks; did you mean output_dir?",
    ),
    (
        "ppo --env CartPole-v1 --env_fn x",
        "'--env_fn' cannot be set on the command line: use --env to name the environment",
    ),
    (
        "ppo --env CartPole-v1 --actor_critic x",
        "'--actor_critic' cannot be set on the command line: pass it from Python, or use "
        "--ac_kwargs:KEY for its arguments",
    ),
    ("ppo --env CartPole-v1 --exp_name", "'--exp_name' needs a value"),
    ("ppo --env CartPole-v1 --exp_name a b", "'--exp_name' takes one value, not 2"),
    ("ppo --env CartPole-v1 --resume True False", "'--resume' takes one value, not 2"),
    (
        "ppo --env CartPole-v1 --resume --overwrite",
        "'--resume' continues the earlier run and '--overwrite' deletes it: choose one",
    ),
    (
        "ppo --env CartPole-v1 --resume --dt",
        "'--resume' cannot find a run whose name has an earlier date: leave out --dt",
    ),
    ("ppo --env CartPole-v1 --dt 5", "'--dt' must be True or False, not 5"),
    ("ppo --env CartPole-v1 --cpu two", "'--cpu' must be a whole number or 'auto', not 'two'"),
    ("ppo --env CartPole-v1 --cpu 1.5", "'--cpu' must be a whole number or 'auto', not 1.5"),
    (
        "ppo --env CartPole-v1 --hosts a,b",
        "'--hosts' applies only to several processes: set their number with --cpu",
    ),
    (
        "ppo --env CartPole-v1 --cpu 2 --hostfile missing.txt",
        "the hostfile 'missing.txt' does not exist",
    ),
    (
        "ppo --env CartPole-v1 --cpu 2 --mpi_timeout 0",
        "'--mpi_timeout' must be a number of seconds, not 0",
    ),
    (
        "ddpg --env Pendulum-v1 --cpu 2",
        "ddpg learns from one replay buffer in one process: leave out --cpu, or use --num_envs "
        "for several environments",
    ),
    (
        "sac --env Pendulum-v1 --cpu auto",
        "sac learns from one replay buffer in one process: leave out --cpu, or use --num_envs "
        "for several environments",
    ),
    ("ppo --env CartPole-v1 --config missing.json", "the preset 'missing.json' does not exist"),
    ("ppo --env CartPole-v1 --dry_run maybe", "'--dry_run' must be True or False, not 'maybe'"),
    (
        "ppo --env CartPole-v1 --dryrun",
        "'--dryrun' is not an argument of ppo: add --help to see them all; did you mean --dry_run?",
    ),
    (
        "ppo --env CartPole-v1 --num_workers 0",
        "'--num_workers' must be a whole number, at least 1, not 0",
    ),
    (
        "ppo --env CartPole-v1 --num_workers many",
        "'--num_workers' must be a whole number, at least 1, not 'many'",
    ),
    ("ppo --env CartPole-v1 --num_workers", "'--num_workers' needs a value"),
    ("ppo --env CartPole-v1 --num_workers 2 4", "'--num_workers' takes one value, not 2"),
    (
        "ppo --env CartPole-v1 --executor cluster",
        "'--executor' must be local, ray or slurm, not 'cluster'",
    ),
    (
        "ppo --env CartPole-v1 --executor slrum",
        "'--executor' must be local, ray or slurm, not 'slrum'",
    ),
    ("ppo --env CartPole-v1 --executor", "'--executor' needs a value"),
    (
        "ppo --env CartPole-v1 --cpus_per_cell 0.5",
        "'--cpus_per_cell' must be a whole number, at least 1, not 0.5",
    ),
    (
        "ppo --env CartPole-v1 --gpus_per_cell -1",
        "'--gpus_per_cell' must be a number, zero or more, not -1",
    ),
    (
        "ppo --env CartPole-v1 --ray_address auto",
        "'--ray_address' needs --executor ray, not local",
    ),
    (
        "ppo --env CartPole-v1 --slurm_options:time 60",
        "'--slurm_options' needs --executor slurm, not local",
    ),
    (
        "ppo --env CartPole-v1 --executor slurm --slurm_options 60",
        "'--slurm_options' is a dict: set its entries, as in --slurm_options:KEY VALUE",
    ),
    (
        "ppo --env CartPole-v1 --gamma 0.9 0.9",
        "two runs of the grid would both be 'cmd_ppo_pytorch_gam0-9' with seed 0: remove the "
        "repeated value, or give values that differ in name",
    ),
    (
        "ppo --env CartPole-v1 --seed 1 1",
        "two runs of the grid would both be 'cmd_ppo_pytorch' with seed 1: remove the "
        "repeated value, or give values that differ in name",
    ),
    (
        "ppo --env CartPole-v1 --gpus_per_cell 1",
        "'--gpus_per_cell' requests GPUs from a cluster: add --executor ray or slurm, or use "
        "--device cuda on this machine",
    ),
    (
        "ppo --env CartPole-v1 --cpu 2 --num_workers 2",
        "runs in parallel have one process each: use either --cpu, or --num_workers and --executor",
    ),
    (
        "ppo --env CartPole-v1 --cpu 2 --executor ray",
        "runs in parallel have one process each: use either --cpu, or --num_workers and --executor",
    ),
    ("ppo --config .", "the preset '.' cannot be read: Is a directory"),
    ("completion", "'spinup completion' needs the name of a shell, bash or zsh, not nothing"),
    ("completion fish", "'spinup completion' needs the name of a shell, bash or zsh, not 'fish'"),
    (
        "completion bash zsh",
        "'spinup completion' needs the name of a shell, bash or zsh, not 'bash zsh'",
    ),
    (
        "ppo --env CartPole-v1 \u2014gamma 0.9",
        "'\u2014gamma' begins with a typographic dash: write '--gamma'",
    ),
]


@pytest.fixture(autouse=True)
def nothing_may_start(monkeypatch, tmp_path, few_environments):
    """An empty working directory, and runs and grids that fail the test when they start."""

    def started(*args, **kwargs):
        raise AssertionError("a wrong command line was run")

    monkeypatch.setattr(ExperimentGrid, "run", started)
    monkeypatch.setattr("spinup.runs.run.EpochLogger", started)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("line", "sentence"), REFUSED, ids=[line for line, _ in REFUSED])
def test_wrong_command_line_ends_in_its_sentence_and_nothing_else(line, sentence, capsys, tmp_path):
    assert run.main(shlex.split(line)) == 2
    assert capsys.readouterr() == ("", f"spinup: {sentence}\n")
    assert list(tmp_path.iterdir()) == []


def test_the_table_is_long_and_has_every_algorithm_and_no_line_twice():
    lines = [line for line, _ in REFUSED]
    assert len(set(lines)) == len(lines) >= 60
    assert set(registry.algorithms()) - {"reinforce"} <= {line.split()[0] for line in lines}


@pytest.mark.parametrize("line", ["ppo --env CartPole-v1", "sac --env Pendulum-v1 --alpha auto"])
def test_the_table_would_notice_a_line_that_is_accepted(line):
    with pytest.raises(AssertionError, match="was run"):
        run.main(shlex.split(line))
