"""PyTorch tutorials, learn the basics: https://docs.pytorch.org/tutorials/beginner/basics/intro.html (tensors,
autograd, build the model, optimization)"""

import numpy as np
import torch
from torch import nn

torch.manual_seed(1)
x_data = torch.rand(4, 4)  # shared
np_array = np.random.default_rng(1).random((2, 2))  # shared
x_np = torch.from_numpy(np_array)  # remote: TypeError
torch.tensor(np_array)  # remote: TypeError
x_ones = torch.ones_like(x_data)
x_rand = torch.rand_like(x_data, dtype=torch.float)  # random
tensor = x_data.clone()
tensor.shape
tensor.dtype
tensor.device
tensor = tensor.to("cpu")
device = torch.device("cpu")
tensor.to(device)
tensor[0]
tensor[:, 0]
tensor[..., -1]
tensor[:, 1] = 0
t1 = torch.cat([tensor, tensor, tensor], dim=1)
y1 = tensor @ tensor.T
y2 = tensor.matmul(tensor.T)
y3 = torch.rand_like(y1)  # random
torch.matmul(tensor, tensor.T, out=y3)
z1 = tensor * tensor
z2 = tensor.mul(tensor)
agg = tensor.sum()
agg_item = agg.item()  # refused: PrivateValue
tensor.add_(5)
t = torch.ones(5)
n = tensor.numpy()  # refused: PrivateValue
np.add(tensor, 1)  # refused: PrivateValue
x = torch.rand(5)  # shared
y = torch.zeros(3)
w = torch.randn(5, 3)
b = torch.randn(3)
w.requires_grad_()
z = torch.matmul(x, w) + b  # refused: OperationRefused
loss = torch.nn.functional.binary_cross_entropy_with_logits(torch.matmul(x, w.detach()) + b, y)
out = (x + 1).pow(2).sum()
torch.func.grad(lambda v: (v**2).sum())(x)  # refused: OperationRefused
X = torch.rand(20, 28, 28)  # shared
labels = torch.randint(0, 10, (20,))  # shared
flatten = nn.Flatten()
flat_image = flatten(X)
flat_image.size()
layer1 = nn.Linear(28 * 28, 20)
hidden1 = layer1(flat_image)  # refused: OperationRefused
torch.relu(flat_image - 0.5)
nn.ReLU()(flat_image - 0.5)
nn.Softmax(dim=1)(flat_image)
nn.functional.one_hot(labels, 10)
nn.functional.avg_pool2d(X[:, None], 2)
nn.functional.max_pool2d(X[:, None], 4)
nn.functional.interpolate(X[:, None], scale_factor=0.5)
X.argmax(1)
(X.flatten(1).argmax(1) == labels).type(torch.float).sum()
(X.flatten(1).argmax(1) == labels).float().mean()
X.mean(dim=0)
X.std()
X.view(20, -1)
X.reshape(-1, 28)
X.permute(1, 2, 0)
X.transpose(1, 2)
X.unsqueeze(1)
X.squeeze()
X.max(dim=1)
torch.max(X, dim=2)
torch.sort(x)
torch.topk(x, 2)
torch.where(X > 0.5, X, torch.zeros(()))
torch.stack([x, x])
torch.split(x, 2)
torch.chunk(X, 4)
torch.einsum("bij,bkj->bik", X, X)
torch.linalg.norm(X)
torch.cumsum(x, 0)
torch.unique(labels)
torch.bincount(labels)
torch.clamp(x, 0.2, 0.8)
torch.norm(X, dim=1)
torch.quantile(x, 0.5)
torch.histc(x, bins=4)
torch.gather(x, 0, torch.tensor([0, 2]))
torch.nonzero(x > 0.5)
x[x > 0.5].numel()  # refused: PrivateValue
x[x > 0.5].mean()
len(x)
x.tolist()  # refused: PrivateValue
float(x.sum())  # refused: PrivateValue
if x.numel() == 5:
    y = x * 2
print(f"loss: {agg:>7f}")  # refused: PrivateValue
torch.isnan(x).any()
x.to(torch.float64)
x.double().sum()
x.int()
x.long()
torch.outer(x, x)
torch.triu(torch.outer(x, x))
torch.corrcoef(X[0])
torch.vmap(torch.dot)(X[:, 0], X[:, 1])  # refused: OperationRefused
torch.distributions.Normal(x, 1.0).log_prob(torch.zeros(5))  # refused: PrivateValue
