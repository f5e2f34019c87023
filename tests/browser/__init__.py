"""Notebooks in a real JupyterLab and Notebook 7, in a real browser."""
