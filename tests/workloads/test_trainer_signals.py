"""The watcher, in a process of its own: a handler cannot be tried out in the test's."""

import signal

import pytest
from trainer_process import PATIENCE, Trainer

INSTALL = """
import os, sys, time
from workloads.trainer import signals
def say(text): print(text, flush=True)
stop = signals.install(GRACE, on_sigterm=lambda: say("term"), on_deadline=lambda: say("deadline"))
"""


def script(text: str, grace: float) -> str:
    return INSTALL.replace("GRACE", str(grace)) + text


def test_a_wait_ends_at_once_and_a_second_sigterm_changes_nothing(trainer: Trainer) -> None:
    process = trainer.command(
        "-c", script("say('ready'); stop.wait(60); time.sleep(0.2); say('left'); os._exit(143)", PATIENCE)
    )
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "term\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=PATIENCE)[0] == "left\n"
    assert process.returncode == 143


def test_other_signals_are_not_taken_for_sigterm(trainer: Trainer) -> None:
    handler = "import signal; signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b'usr1\\n')); say('ready')\n"
    process = trainer.command("-c", script(handler + "while not stop.wait(0.05): pass\nsay('left')", PATIENCE))
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "usr1\n", trainer.errors()
    process.send_signal(signal.SIGTERM)
    assert "left\n" in process.communicate(timeout=PATIENCE)[0]


def test_who_does_not_leave_is_out_before_the_grace_ends(trainer: Trainer) -> None:
    process = trainer.command("-c", script("say('ready'); time.sleep(600)", 0.5))
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=PATIENCE)[0] == "term\ndeadline\n"
    assert process.returncode == 143


def test_a_log_that_blocks_does_not_keep_the_process(trainer: Trainer) -> None:
    text = "say('ready'); say = lambda text: time.sleep(600)\ntime.sleep(600)"
    process = trainer.command("-c", script(text, 0.5))
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=PATIENCE) == 143


@pytest.mark.jax
def test_in_the_middle_of_an_xla_compilation(trainer: Trainer) -> None:
    compile = """
import jax, jax.numpy as jnp
def long(x):
    for i in range(500):
        x = jnp.cumsum(jnp.sin(x) @ x + i)[:64] * x
    return x
lowered = jax.jit(long).lower(jnp.ones((64, 64)))
say("compiling"); lowered.compile(); say("compiled")
"""
    process = trainer.command("-c", script(compile, 0.5))
    assert process.stdout
    assert process.stdout.readline() == "compiling\n", trainer.errors()
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=PATIENCE)[0] == "term\ndeadline\n"
    assert process.returncode == 143
