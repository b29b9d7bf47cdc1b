"""DataLoader workers that are forked anew for every epoch."""

import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

from traceml import trace_step

WORKERS, EPOCHS = 4, int(sys.argv[1])

model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(80, 8))
for _ in range(EPOCHS):
    loader = DataLoader(data, batch_size=8, num_workers=WORKERS, multiprocessing_context="fork")
    for (inputs,) in loader:
        with trace_step(model):
            optimizer.zero_grad()
            model(inputs).sum().backward()
            optimizer.step()
print("done")
