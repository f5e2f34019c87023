"""DP-SGD (Abadi et al., "Deep Learning with Differential Privacy", 2016), one noun to a file.

- sample: one row of a batch, with its inputs and target.
- clip: the largest norm of one sample's gradient; a longer gradient is scaled down to it.
- noise: the standard deviation of the Gaussian noise on the sum of a batch, in units of `clip`.
- Poisson sample: a batch in which each row is by chance, with probability `rate`. It may be empty.
- account: rate, noise and number of steps, from which dp-accounting computes epsilon at a given delta.
- way: a method of making clipped sums: "bookkeeping", "per_sample" or "opacus". All give the same sum.
- apart: samples are apart if no sample's loss depends on another sample of the batch.
- back: the gradient of the sum of all losses with respect to what a layer returned.
- trust: who may see unprotected sums in a group: "secure_sum" (no member), "leader", "none".

Example: clip is 1, noise is 2, batch is 4. A batch has three samples, with gradients of norms 0.5, 1 and 10;
the last one is divided by 10. The sum of the three, plus Gaussian noise with a standard deviation of 2 on
each coordinate, is divided by 4 (the declared batch, not the three samples) and given to the optimizer.
"""
