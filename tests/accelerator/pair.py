"""Two ranks on the fake accelerator that really wait for each other.

`python -m tests.accelerator.pair PLAN` runs both and prints what each recorded. Where the plan
names the ranks' rendezvous, a folder that nobody has used before, it is one rank and an ordinary
script: the environment says which, as launchers do, and it traces nothing by itself. The truth
about its steps it leaves in that folder.
"""

import json
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch

from tests.accelerator.backend import register
from tests.accelerator.loop import join, train
from tests.accelerator.plan import Plan, from_json
from tests.accelerator.running import run_pair
from tests.accelerator.truth import steps_of

_ALONE = (("RANK", 0), ("WORLD_SIZE", 1))


def train_as_launched(plan: Plan) -> None:
    """Be the rank that the environment says."""
    rank, world = (int(os.environ.get(name, given)) for name, given in _ALONE)
    own = replace(plan, rank=rank, world=world)
    register(Path(own.rendezvous))
    join(own)
    train(own)
    torch.fake.drain()
    truth = [asdict(step) for step in steps_of(torch.fake.log())]
    (Path(own.rendezvous) / f"truth-{own.rank}.json").write_text(json.dumps(truth))


if __name__ == "__main__":
    planned = from_json(sys.argv[1])
    if planned.rendezvous:
        train_as_launched(planned)
    else:
        print(json.dumps([ran.told for ran in run_pair(planned)]))
