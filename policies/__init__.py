"""The policy pack: what no deployment may do, whoever wrote it. Pure rules, one a file, and a thin registration."""
