"""Mocks at the scientist: the copies that steps run on, how they are shown, and checks by mates."""
