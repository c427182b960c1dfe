"""AsyncCheckpointSaver as a callback of Stable-Baselines3 and of Lightning: copy the class you need.

python examples/checkpoint_callback.py      # trains SB3's PPO on CartPole for a moment, if SB3 is installed
"""

import contextlib
from pathlib import Path

from slipstream.checkpoint import AsyncCheckpointSaver, load_checkpoint

with contextlib.suppress(ImportError):
    from stable_baselines3.common.callbacks import BaseCallback

    class SB3Saver(BaseCallback):
        """model.learn(..., callback=SB3Saver("run")): saves after every rollout, beside the training."""

        def __init__(self, folder, **options):
            super().__init__()
            self.folder, self.saver = Path(folder), AsyncCheckpointSaver(**options)

        def _on_step(self):
            return not self.saver.stop_requested  # False ends the training

        def _on_rollout_end(self):
            policy = self.model.policy
            state = {"policy": policy.state_dict(), "optimizer": policy.optimizer.state_dict()}
            self.saver.save_async(state, self.folder / f"checkpoint_{self.num_timesteps}.pt", step=self.num_timesteps)

        def _on_training_end(self):
            self.saver.shutdown()


with contextlib.suppress(ImportError):
    from lightning.pytorch.callbacks import Callback

    class LightningSaver(Callback):
        """Trainer(callbacks=[LightningSaver("run")]): saves at the end of every epoch, beside the training."""

        def __init__(self, folder, **options):
            self.folder, self.saver = Path(folder), AsyncCheckpointSaver(**options)

        def on_train_epoch_end(self, trainer, module):
            optimizers = [o.state_dict() for o in trainer.optimizers]
            state = {"state_dict": module.state_dict(), "optimizers": optimizers, "epoch": trainer.current_epoch}
            epoch = trainer.current_epoch
            self.saver.save_async(state, self.folder / f"checkpoint_{epoch}.pt", step=epoch)

        def on_fit_end(self, trainer, module):
            self.saver.shutdown()


if __name__ == "__main__" and "SB3Saver" in globals():
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", "CartPole-v1", n_steps=256, device="cpu")
    model.learn(1024, callback=SB3Saver("runs/sb3", keep_last=2, links=True))
    model.policy.load_state_dict(load_checkpoint("runs/sb3", keys=["policy"])["policy"])
    print("resumable:", *sorted(p.name for p in Path("runs/sb3").iterdir()))
