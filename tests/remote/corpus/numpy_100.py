"""100 numpy exercises (Nicolas P. Rougier): https://github.com/rougier/numpy-100"""

import numpy as np

Z = np.arange(10, 50)  # shared
Z[::-1]
Z.reshape(8, 5)
np.nonzero(Z)
Z.size
Z.itemsize
(Z.size * Z.itemsize)
Z = np.random.default_rng(6).random((10, 10))  # shared
Zmin, Zmax = Z.min(), Z.max()
Z.mean()
(Z - Zmin) / (Zmax - Zmin)
np.pad(Z, pad_width=1, mode="constant", constant_values=0)
np.tile(Z[:2, :2], (4, 4))
(Z - np.mean(Z)) / (np.std(Z))
A = np.random.default_rng(7).random((5, 3))  # shared
B = np.random.default_rng(8).random((3, 2))  # shared
A @ B
np.dot(A, B)
Z = np.arange(11)  # shared
Z[(3 < Z) & (Z < 8)] *= -1
Z.astype(float) ** 2
2 << np.abs(Z) >> 2
Z < -Z
1j * Z
Z / 1 / 1
Z = np.random.default_rng(9).uniform(-10, +10, 10)  # shared
np.copysign(np.ceil(np.abs(Z)), Z)
np.where(Z > 0, np.ceil(Z), np.floor(Z))
Z1 = np.random.default_rng(10).integers(0, 10, 10)  # shared
Z2 = np.random.default_rng(11).integers(0, 10, 10)  # shared
np.intersect1d(Z1, Z2)
np.sqrt(Z1) == np.emath.sqrt(Z1)  # refused: OperationRefused
np.allclose(Z1, Z2)
np.array_equal(Z1, Z2)
Z - Z % 1
Z // 1
np.floor(Z)
Z.astype(int)
np.trunc(Z)
Z.sort()  # refused: UnknownAttribute
np.add.reduce(Z1)
Z[Z.argmax()] = 0
C = 1.0 / np.subtract.outer(Z1 + 0.5, Z2 + 20)
np.linalg.det(C[:3, :3])
Z = np.random.default_rng(12).integers(0, 100, 40)  # shared
v = np.random.default_rng(13).uniform(0, 100)
index = (np.abs(Z - v)).argmin()
Z[index]
Z.flat[index]  # refused: UnknownAttribute
Z = np.random.default_rng(14).random((10, 2))  # shared
X, Y = np.atleast_2d(Z[:, 0], Z[:, 1])
D = np.sqrt((X - X.T) ** 2 + (Y - Y.T) ** 2)
Zi = (np.random.default_rng(15).random(10) * 100).astype(np.float32)  # shared
Y = Zi.view(np.int32)
Y[:] = Zi
Z = np.random.default_rng(16).random((5, 10))  # shared
Z - Z.mean(axis=1, keepdims=True)
Z[Z[:, 1].argsort()]
Z3 = np.random.default_rng(17).integers(0, 3, (3, 10))  # shared
(~Z3.any(axis=0)).any()
z = 0.5
m = Z.flat[np.abs(Z - z).argmin()]  # refused: UnknownAttribute
Z = np.ones(10)  # shared
I = np.random.default_rng(18).integers(0, len(Z), 20)  # shared
Z += np.bincount(I, minlength=len(Z))
np.add.at(Z, I, 1)
X = np.random.default_rng(19).random(6)  # shared
I6 = np.array([1, 3, 9, 3, 4, 1])  # shared
F = np.bincount(I6, X)
I_ = np.random.default_rng(20).integers(0, 2, (8, 8, 3))  # shared
F = I_[..., 0] * (256 * 256) + I_[..., 1] * 256 + I_[..., 2]
len(np.unique(F))  # refused: PrivateValue
np.unique(I_)
A4 = np.random.default_rng(21).integers(0, 10, (3, 4, 3, 4))  # shared
A4.sum(axis=(-2, -1))
A4.reshape(A4.shape[:-2] + (-1,)).sum(axis=-1)
D = np.random.default_rng(22).uniform(0, 1, 100)  # shared
S = np.random.default_rng(23).integers(0, 10, 100)  # shared
D_sums = np.bincount(S, weights=D)
D_counts = np.bincount(S)
D_sums / D_counts
A = np.random.default_rng(24).uniform(0, 1, (5, 5))  # shared
B = np.random.default_rng(25).uniform(0, 1, (5, 5))  # shared
np.diag(np.dot(A, B))
np.sum(A * B.T, axis=1)
np.einsum("ij,ji->i", A, B)
A[[0, 1]] = A[[1, 0]]
faces = np.random.default_rng(26).integers(0, 100, (10, 3))  # shared
F = np.roll(faces.repeat(2, axis=1), -1, axis=1)
F = F.reshape(len(F) * 3, 2)
F = np.sort(F, axis=1)
np.unique(F, axis=0)
C = np.bincount([1, 1, 2, 3, 4, 4, 6])  # shared
np.repeat(np.arange(len(C)), C)  # remote: PrivateValue
ret = np.cumsum(D, dtype=float)
ret[3:] = ret[3:] - ret[:-3]
ret[2:] / 3
np.lib.stride_tricks.sliding_window_view(Z, window_shape=3)
Zb = np.random.default_rng(27).integers(0, 2, 100)  # shared
np.logical_not(Zb, out=Zb)  # refused: OperationRefused
np.negative(D, out=D)  # refused: OperationRefused
U, S_, V = np.linalg.svd(B)
np.sum(S_ > 1e-10)
np.linalg.matrix_rank(B)
np.bincount(S).argmax()
np.partition(-D, 5)[:5]
D[np.argsort(D)[-5:]]
D[np.argpartition(-D, 5)[:5]]
np.linalg.norm(A, axis=0)
np.corrcoef(A)
np.percentile(D, [2.5, 97.5])
np.array_equal(A, A.T)
np.isfinite(D).all()
np.histogram(D, bins=5)
np.digitize(D, bins=[-0.75, -0.5, -0.25])
np.meshgrid(D[:3], D[:2])
np.searchsorted(np.sort(D), -0.5)
f"{D.mean():.3f}"  # refused: PrivateValue
float(D.mean())  # refused: PrivateValue
int(S.max())  # refused: PrivateValue
D.tolist()
D.item(0)
max(D)  # refused: PrivateValue
sorted(D)  # refused: PrivateValue
set(S)  # refused: PrivateValue
D.mean() in D  # refused: PrivateValue
rng = np.random.default_rng(28)
rng.permutation(D)  # refused: PrivateValue
rng.choice(D, 5)  # refused: PrivateValue
np.vectorize(lambda x: x + 1)(D)  # refused: PrivateValue
np.apply_along_axis(lambda x: x.max(), 1, A)  # refused: OperationRefused
np.interp(0.5, np.sort(D), np.arange(100.0))
np.polyfit(np.arange(100.0), D, 2)
np.gradient(D)
np.trapezoid(D)
np.convolve(D, np.ones(3) / 3, mode="valid")
np.outer(D[:3], D[:3])
np.kron(A[:2, :2], B[:2, :2])
np.linalg.solve(A, B[:, 0])
np.linalg.lstsq(A, B[:, 0], rcond=None)
np.linalg.eigvalsh(A + A.T)
np.cross(A[0, :3], B[0, :3])
np.median(D)
np.nanmean(np.where(D < -0.5, np.nan, D))
np.count_nonzero(D < -0.5)
np.argwhere(A > 0.5)
np.flatnonzero(D < -0.9)
np.where(D < -0.9)
np.all(D <= 0)
np.diff(D).max()
np.ptp(D)
np.quantile(D, 0.25)
np.triu(A)
np.trace(A)
np.fft.rfft(D)
np.abs(np.fft.fft(D))[:5]
np.concatenate([A, B])
np.vstack((A, B)).shape
np.split(D, 4)
np.stack([A, B], axis=-1)
np.clip(D, -0.8, -0.2)
np.sign(D)
np.rot90(A)
np.around(D, 2)
D.dtype
D.nbytes
A.T.flags  # refused: UnknownAttribute
