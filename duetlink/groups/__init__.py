"""Groups: many notebooks that meet by one code, and operations that all of them call together."""
