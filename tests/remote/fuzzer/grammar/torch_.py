"""Of torch: local tensors, views, in-place methods, modules, gradients, optimisers, threads, settings."""

_SMALL = "torch.manual_seed({digit})\n{=} = nn.Linear(3, 2)"
_LAYERS = "nn.ReLU(inplace=True)", "nn.SiLU(inplace=True)", "nn.LeakyReLU(0.1, inplace=True)", "nn.Tanh()"
_THREAD = """\
{=} = remote(torch.ones(3, requires_grad=True))
_begun, _stop = threading.Event(), threading.Event()
def _other():
    with torch.no_grad():
        while not _stop.is_set():
            ({=} * 2).sum()
            _begun.set()
_thread = threading.Thread(target=_other)
_thread.start()
_begun.wait(5)
for _i in range({many}):
    ({=} * 2 + {=} * 3).sum().backward()
_stop.set()
_thread.join()
{=} = {=}.grad"""
_EARLY = """\
torch.manual_seed({digit})
_model = nn.Linear(3, 1)
{first}
{second}
for _i in range(2):
    _optimiser.zero_grad()
    _loss = (_model({u} * 1)[:, 0] - {t}).pow(2).mean()
    _loss.backward()
    _optimiser.step()
{=} = _model.weight.detach()"""
_OPTIMISER = "_optimiser = torch.optim.{optimiser}(_model.parameters(), lr=0.01)"
_PLACED = "_model = remote(_model)"
_BLOCK = """\
torch.manual_seed({digit})
_layer, _act = remote(nn.Linear(3, 3)), {layer}
_hidden = _layer({u} * 1)
{use}
{=} = (_hidden + _layer(_out)).detach()"""

TEMPLATES = (
    "{=} = torch.zeros(())",
    "{=} = torch.zeros(8)",
    "{=} = torch.zeros(8, 3)",
    "{=} = remote(torch.zeros(8))",
    "{=} = {t|u} {op} {t|z|#}",
    "{=} = {u} {op} {u|#}",
    "{=} = {t|u}.clone()",
    "{=} = {t}.sum()",
    "{=} = {u}.mean()",
    "{=} = {u}.sum(dim={01})",
    "{=} = {t|u}[{[]}]",
    "{=} = {u}[{at}]",
    "{=} = {u}[:, 1]",
    "{=} = {u}.T",
    "{=} = {t|u}.view(-1)",
    "{=} = {t|u}.detach()",
    "{=} = {t}.reshape(2, 4)",
    "{=} = {t}[{t} > {#}]",
    "{=} = {t} > {#}",
    "{=} = {u}.shape",
    "{=} = {u}.numel()",
    "{=} = {t|u}.numpy()",
    "{=} = {t}.tolist()",
    "{=} = {t}.max().item()",
    "{=} = float({t}.sum())",
    "{=} = {u}.dtype == torch.float32",
    "{z} {iop} {t}.sum()",
    "{z} {iop} {#}",
    "{z}.add_({t}.mean())",
    "{t|u} {iop} {#|z}",
    "{t|u}.add_({#|z})",
    "{t|u}.mul_({#})",
    "{t}.copy_({t})",
    "{u}.copy_({u})",
    "{t}.clamp_(0, {#})",
    "{t|u}.zero_()",
    "{t|u}[{at}] = {#|z}",
    "{t|u}[{[]}] = {#}",
    "{u}[{at}] = {u}[0] * {#}",
    "{t|u}[{[]}] {iop} {#}",
    "{u}[:, 1].add_({#})",
    "{t}.index_put_((torch.tensor([0, 1]),), {z})",
    "{t}.index_add_(0, torch.tensor([0, 1, 1]), {t}[:3])",
    "{t}.masked_fill_({t} > {#}, {#})",
    "{t}.scatter_(0, torch.tensor([0, 1]), {#})",
    "torch.add({t}, {#}, out={t})",
    "functional.relu({t|u}, inplace=True)",
    "functional.relu_({t|u})",
    "{=} = torch.where({t} > 0, {t}, {#})",
    "{=} = torch.cat([{t}, {t}])",
    "{=} = torch.stack([{t}, {t}])",
    "{=} = {u} @ {u}.T",
    "{=} = torch.softmax({u}, dim=1)",
    "{=} = torch.nonzero({t} > 0)",
    "{=} = torch.topk({t}, 2).values",
    "for _row in {u}:\n    _row {iop} _row.mean()",
    "{=} = torch.zeros(())\nfor _i in {t}:\n    {=} = {=} + _i",
    "{=} = torch.zeros(())\nfor _row in {u}:\n    {=} += _row.sum()",
    "{=} = 0.0\nfor _row in {u}:\n    {=} += _row.sum()",
    "{=} = torch.zeros(8, 3)\nfor _i in range(3):\n    {=}[_i] = {u}[_i] * 2",
    "with torch.no_grad():\n    {=} = {u} * {#}",
    "with torch.autocast('cpu'):\n    {=} = {u} @ {u}.T",
    "torch.set_default_dtype(torch.float64)\n"
    "{=} = remote(torch).zeros(3)\ntorch.set_default_dtype(torch.float32)",
    "{=} = torch.full((3,), {#})",
    "torch.manual_seed({digit})\n{=} = functional.dropout({u}, 0.5)",
    "torch.manual_seed(2)\n_a = functional.dropout({u}, 0.5)\ntorch.manual_seed(2)\n"
    "same{=} = (_a == functional.dropout({0}, 0.5)).all()",
    "{=} = {t|u}.clone().requires_grad_()\n({=} ** 2).sum().backward()\n{=} = {=}.grad",
    "{=} = functional.batch_norm({u} * 1, torch.zeros(3), torch.ones(3), training=True)",
    "_norm = remote(nn.BatchNorm1d(3))\n{=} = _norm({u} * 1).detach()\n_norm = _norm.running_mean",
    _EARLY.replace("{first}", _OPTIMISER).replace("{second}", _PLACED),
    _EARLY.replace("{first}", _PLACED).replace("{second}", _OPTIMISER),
    *(
        _BLOCK.replace("{layer}", layer).replace("{use}", use)
        for layer in _LAYERS
        for use in ("_out = _act(_hidden)", "_act(_hidden)\n_out = _hidden")
    ),
    _THREAD,
)
