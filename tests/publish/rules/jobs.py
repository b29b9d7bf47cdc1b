"""Jobs of several ranks and nodes, as they are scraped and as one sidecar would judge them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

from traceml.diagnosis.straggler import excesses, lower_median
from traceml.sidecar.statistics import spread
from traceml.snapshot import RankTimes, Spread

PHASES = ("dataloader", "forward", "backward", "collective_wait")
FLOOR_SECONDS = 0.001
TOLERATED = 0.1


@dataclass(frozen=True)
class Rank:
    """Seconds by phase; they add up to the step."""

    number: int
    node: int
    group: str
    phases: Mapping[str, float]

    @property
    def step(self) -> float:
        return round(sum(self.phases.values()), 4)


@dataclass(frozen=True)
class Job:
    name: str
    ranks: tuple[Rank, ...]

    def series(self) -> Iterator[tuple[str, float]]:
        """Of all nodes, with what their sidecars say of their own ranks."""
        for rank in self.ranks:
            who = f'run="{self.name}",instance="{rank.node}:1",rank="{rank.number}"'
            info = f'node="{rank.node}",group="{rank.group}",gpu_uuid=""'
            yield f"traceml_rank_info{{{who},{info}}}", 1
            yield f"traceml_rank_step_seconds{{{who}}}", rank.step
            for phase, seconds in rank.phases.items():
                yield f'traceml_rank_phase_seconds{{{who},phase="{phase}"}}', seconds
        for node in {rank.node for rank in self.ranks}:
            where = f'run="{self.name}",instance="{node}:1"'
            local = [rank for rank in self.ranks if rank.node == node]
            worst = _spread({rank.number: rank.step for rank in local})
            yield f"traceml_ranks_expected{{{where}}}", len(local)
            yield f"traceml_step_worst_seconds{{{where}}}", worst.worst
            yield f"traceml_step_worst_rank{{{where}}}", worst.worst_rank
            for phase in PHASES:
                worst = _spread({rank.number: rank.phases[phase] for rank in local})
                labels = f'{where},phase="{phase}"'
                yield f"traceml_phase_worst_seconds{{{labels}}}", worst.worst
                yield f"traceml_phase_worst_rank{{{labels}}}", worst.worst_rank

    @property
    def step(self) -> Spread:
        return _spread({rank.number: rank.step for rank in self.ranks})

    def phase(self, name: str) -> Spread:
        return _spread({rank.number: rank.phases[name] for rank in self.ranks})

    def scores(self, phase: str) -> dict[int, float]:
        """Of the ranks that are accused of a phase."""
        times = {
            rank.number: RankTimes(rank.step, None, rank.phases, rank.group) for rank in self.ranks
        }
        return {
            each.rank: each.seconds / self.step.median / TOLERATED
            for each in excesses(times, [phase]) or ()
            if each.seconds >= FLOOR_SECONDS and self._awaited(each.rank) >= each.seconds / 2
        }

    def _awaited(self, number: int) -> float:
        own = next(rank for rank in self.ranks if rank.number == number)
        others = [
            rank.phases["collective_wait"]
            for rank in self.ranks
            if rank.group == own.group and rank is not own
        ]
        return lower_median(others) - own.phases["collective_wait"]


def _spread(values: Mapping[int, float]) -> Spread:
    found = spread(values)
    assert found is not None
    return found


def any_job(seed: int) -> Job:
    """Some ranks on some nodes, in one group or two, each as slow as it likes."""
    chance = Random(seed)
    count, nodes, groups = chance.randint(1, 9), chance.randint(1, 3), chance.randint(1, 2)
    step = 0.1
    ranks = []
    for number in range(count):
        own = [
            round(chance.choice((0.005, 0.01, 0.02)) * chance.uniform(1, 2), 4) for _ in range(3)
        ]
        if chance.random() < 0.3:  # ties are as common as they are in real figures
            own = [0.01, 0.02, 0.03]
        length = step + chance.randint(0, 3) / 1000
        phases = dict(zip(PHASES, [*own, round(length - sum(own), 4)], strict=True))
        ranks.append(Rank(number, number % nodes, f"group-{number % groups}", phases))
    return Job(f"job-{seed}", tuple(ranks))


def job_of_equals() -> Job:
    """Two ranks of the same figures and a slow one. Interpolated, 0.0140625 s is a little less."""
    forwards = (0.0140625, 0.0140625, 0.05)
    ranks = tuple(
        Rank(number, number, "group-0", {
            "dataloader": 0.0, "forward": forward, "backward": 0.01,
            "collective_wait": round(0.09 - forward, 7),
        })
        for number, forward in enumerate(forwards)
    )  # fmt: skip
    return Job("job-of-equals", ranks)
