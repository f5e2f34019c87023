"""Training with local steps between rounds of averaging (federated averaging), one noun to a file."""
