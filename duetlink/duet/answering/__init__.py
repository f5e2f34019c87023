"""Whoever answers: requests and their life, policies, functions and steps that run here."""
