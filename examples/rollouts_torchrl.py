"""RolloutStorage in a TorchRL loop: the collector's TensorDicts as they come, `next` stored once. Needs torchrl and
gymnasium."""

import argparse
import tempfile

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.collectors import Collector  # SyncDataCollector in older versions
from torchrl.envs import GymEnv, ParallelEnv, SerialEnv, StepCounter, TransformedEnv

from slipstream import RolloutStorage


def make_env() -> TransformedEnv:
    return TransformedEnv(GymEnv("CartPole-v1"), StepCounter(200))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default=None)
    parser.add_argument("--envs", type=int, default=4)
    parser.add_argument("--parallel", action="store_true", help="each environment in a process of its own")
    args = parser.parse_args()
    folder = args.folder or tempfile.mkdtemp()
    torch.manual_seed(0)
    env = (ParallelEnv if args.parallel else SerialEnv)(args.envs, make_env)
    net = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))
    logits = TensorDictModule(net, in_keys=["observation"], out_keys=["logits"])
    choose = TensorDictModule(lambda x: torch.nn.functional.one_hot(torch.distributions.Categorical(logits=x).sample(), 2),
                              in_keys=["logits"], out_keys=["action"])  # fmt: skip
    policy = TensorDictSequential(logits, choose)
    collector = Collector(env, policy, frames_per_batch=args.envs * 64, total_frames=args.envs * 64 * 10)
    with RolloutStorage(folder) as storage:
        for i, data in enumerate(collector):
            # ... your loss, your optimizer ...
            storage.save(data, iteration=i)
        collector.shutdown()
        stats = storage.get_stats()
        print(
            f"{stats['saved'] + stats['queue_size']} batches; the loop waited {stats['blocking_ms_median']:.2f} ms for each"
        )
    storage = RolloutStorage(folder)
    file = storage.file(9)
    print(
        f"{file.tensor_bytes / 1e3:.0f} kB in {file.path.stat().st_size / 1e3:.0f} kB: {tuple(storage.load(9).batch_size)}"
    )
    last = storage.load_slice(9, steps=-1, keys=[("next", "observation"), ("next", "done")])
    print("the observations after the last step:", tuple(last["next", "observation"].shape))
    return len(storage.iterations())


if __name__ == "__main__":
    main()
