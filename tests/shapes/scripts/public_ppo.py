"""PPO in a single file: the agent is never called, only its methods are."""

import time

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions import Categorical

ITERATIONS, NUM_ENVS, NUM_STEPS = 3, 4, 16
UPDATE_EPOCHS, MINIBATCHES = 2, 4
GAMMA, GAE_LAMBDA, CLIP, ENTROPY, VALUE = 0.99, 0.95, 0.2, 0.01, 0.5
BATCH = NUM_ENVS * NUM_STEPS

Floats = NDArray[np.float32]


class Corridors:
    """Points on a line each, that get more the nearer they are to zero; some start anew."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._state = self._start(NUM_ENVS)

    def _start(self, count: int) -> Floats:
        return self._rng.uniform(-1.0, 1.0, (count, 2)).astype(np.float32)

    def reset(self) -> Floats:
        self._state = self._start(NUM_ENVS)
        return self._state.copy()

    def step(self, action: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
        self._state[:, 1] += 0.1 * (action - 1)
        self._state[:, 0] += self._state[:, 1]
        reward = -np.abs(self._state[:, 0])
        done = reward < -2.0
        self._state[done] = self._start(int(done.sum()))
        return self._state.copy(), reward, done.astype(np.float32)


def layer(inputs: int, outputs: int, std: float = 2**0.5) -> nn.Linear:
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, std)
    nn.init.zeros_(linear.bias)
    return linear


class Agent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.critic = nn.Sequential(layer(2, 32), nn.Tanh(), layer(32, 1, std=1.0))
        self.actor = nn.Sequential(layer(2, 32), nn.Tanh(), layer(32, 3, std=0.01))

    def get_value(self, x: Tensor) -> Tensor:
        return self.critic(x).squeeze(-1)

    def get_action_and_value(
        self, x: Tensor, action: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        probs = Categorical(logits=self.actor(x))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.get_value(x)


if __name__ == "__main__":
    torch.manual_seed(1)
    torch.set_num_threads(1)
    envs, agent = Corridors(seed=1), Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
    obs = torch.zeros(NUM_STEPS, NUM_ENVS, 2)
    actions = torch.zeros(NUM_STEPS, NUM_ENVS, dtype=torch.long)
    logprobs, rewards, dones, values = (torch.zeros(NUM_STEPS, NUM_ENVS) for _ in range(4))
    next_obs, next_done = torch.from_numpy(envs.reset()), torch.zeros(NUM_ENVS)

    for iteration in range(ITERATIONS):
        optimizer.param_groups[0]["lr"] = (1.0 - iteration / ITERATIONS) * 2.5e-4
        for step in range(NUM_STEPS):
            obs[step], dones[step] = next_obs, next_done
            with torch.no_grad():
                actions[step], logprobs[step], _, values[step] = agent.get_action_and_value(
                    next_obs
                )
            next_obs, rewards[step], next_done = map(
                torch.from_numpy, envs.step(actions[step].numpy())
            )

        with torch.no_grad():
            next_value = agent.get_value(next_obs)
            advantages, last = torch.zeros_like(rewards), torch.zeros(NUM_ENVS)
            for t in reversed(range(NUM_STEPS)):
                alive = 1.0 - (next_done if t == NUM_STEPS - 1 else dones[t + 1])
                ahead = next_value if t == NUM_STEPS - 1 else values[t + 1]
                delta = rewards[t] + GAMMA * ahead * alive - values[t]
                advantages[t] = last = delta + GAMMA * GAE_LAMBDA * alive * last
            returns = (advantages + values).flatten()

        for _ in range(UPDATE_EPOCHS):
            for mb in torch.randperm(BATCH).chunk(MINIBATCHES):
                _, newlogprob, entropy, newvalue = agent.get_action_and_value(
                    obs.flatten(0, 1)[mb], actions.flatten()[mb]
                )
                time.sleep(0.05)
                ratio = (newlogprob - logprobs.flatten()[mb]).exp()
                gain = advantages.flatten()[mb]
                gain = (gain - gain.mean()) / (gain.std() + 1e-8)
                pg_loss = torch.max(-gain * ratio, -gain * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
                v_loss = 0.5 * ((newvalue - returns[mb]) ** 2).mean()
                loss = pg_loss - ENTROPY * entropy.mean() + VALUE * v_loss
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
                print(f"loss 0 {loss.item().hex()}")
