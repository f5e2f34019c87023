"""DP-SGD (Abadi et al., "Deep Learning with Differential Privacy", 2016), one noun to a file."""
