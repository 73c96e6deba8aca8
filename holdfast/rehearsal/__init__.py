"""Rehearsals: the whole system on the real engine against the emulated cloud, before money is spent."""
