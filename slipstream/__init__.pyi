"""The public names: read by type checkers, and by `__init__.py`, which imports a name when it is first used."""

from slipstream.algorithms.dqn import DQN as DQN
from slipstream.algorithms.ppo import PPO as PPO
from slipstream.algorithms.sac import SAC as SAC
from slipstream.algorithms.td3 import TD3 as TD3
from slipstream.checkpoint import AsyncCheckpointSaver as AsyncCheckpointSaver
from slipstream.checkpoint import format_checkpoint_name as format_checkpoint_name
from slipstream.checkpoint import get_model_size as get_model_size
from slipstream.checkpoint import load_checkpoint as load_checkpoint
from slipstream.checkpoint import print_model_info as print_model_info
from slipstream.collectors import CompressedDataCollector as CompressedDataCollector
from slipstream.collectors import CompressedLidarTransform as CompressedLidarTransform
from slipstream.collectors import PipelinedDataCollector as PipelinedDataCollector
from slipstream.collectors import SyncDataCollector as SyncDataCollector
from slipstream.collectors import compress_rollout as compress_rollout
from slipstream.collectors import decompress_rollout as decompress_rollout
from slipstream.envs.base import TensorEnv as TensorEnv
from slipstream.models.exploration import ExplorationType as ExplorationType
from slipstream.models.exploration import set_exploration_type as set_exploration_type
from slipstream.monitor import Advisor as Advisor
from slipstream.monitor import PerformanceMonitor as PerformanceMonitor
from slipstream.replay import DictReplayBuffer as DictReplayBuffer
from slipstream.replay import HindsightSampler as HindsightSampler
from slipstream.replay import PrefixSum as PrefixSum
from slipstream.replay import PrioritizedSampler as PrioritizedSampler
from slipstream.replay import ReplayBuffer as ReplayBuffer
from slipstream.replay import decompress_single_gridmap as decompress_single_gridmap
from slipstream.replay import sample_batch as sample_batch
from slipstream.rollouts.pickled import load_rollout as load_rollout
from slipstream.rollouts.storage import RolloutStorage as RolloutStorage
from slipstream.storage.codec.images import compress_image as compress_image
from slipstream.storage.codec.images import compress_image_seq as compress_image_seq
from slipstream.storage.codec.images import decompress_image as decompress_image
from slipstream.storage.codec.images import decompress_image_seq as decompress_image_seq
from slipstream.tasks.aircombat.agents import BaseAgent as BaseAgent
from slipstream.tasks.aircombat.agents import PlaceholderAgent as PlaceholderAgent
from slipstream.tasks.aircombat.agents import create_agent as create_agent
from slipstream.tasks.aircombat.env import AirCombatEnv as AirCombatEnv
from slipstream.tasks.aircombat.rewards import BaseReward as BaseReward
from slipstream.tasks.aircombat.rewards import ZeroReward as ZeroReward
from slipstream.tasks.aircombat.rewards import create_reward as create_reward
from slipstream.tasks.navigation.env import NavigationEnv as NavigationEnv
from slipstream.training.evaluate import evaluate as evaluate
from slipstream.training.trainer import Trainer as Trainer

__version__: str
