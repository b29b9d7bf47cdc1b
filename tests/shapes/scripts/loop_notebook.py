"""As a notebook is exported: no main, no function, everything at the top level."""

# %%
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(16)
torch.set_num_threads(1)

# %%
X = torch.randn(48, 32)
y = (X.sum(dim=1) > 0).long()
loader = DataLoader(TensorDataset(X, y), batch_size=8, shuffle=True)

# %%
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 2))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

# %%
history = []
for _ in range(2):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        history.append(loss.item())
        print("loss", 0, history[-1].hex())
        time.sleep(0.05)  # where the plot would be drawn
