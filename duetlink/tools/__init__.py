"""The command line, the doctor, the played notebooks."""
