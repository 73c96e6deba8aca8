import pytest

from workloads.trainer.config import ConfigError, from_env
from workloads.trainer.contract import contract

REQUIRED = {"CHECKPOINT_DIR": "/checkpoints"}


def test_defaults_and_the_task_folder() -> None:
    config = from_env(
        REQUIRED | {"CLOUD_RUN_JOB": "gpu-resilient-job", "CLOUD_RUN_TASK_INDEX": "2", "CLOUD_RUN_TASK_COUNT": "3"}
    )
    assert str(config.task_dir) == "/checkpoints/gpu-resilient-job/gpu-resilient-job/2"
    assert (config.grace_seconds, config.step_seconds_min, config.steps) == (10.0, 0.0, 100)


def test_a_run_id_names_the_folder() -> None:
    config = from_env(REQUIRED | {"CLOUD_RUN_JOB": "job", "HOLDFAST_RUN_ID": "second-try"})
    assert str(config.task_dir) == "/checkpoints/job/second-try/0"


def test_only_what_determines_the_weights_is_the_runs() -> None:
    one = from_env(REQUIRED)
    other = from_env(
        REQUIRED
        | {
            "HOLDFAST_STEPS": "7",
            "HOLDFAST_CHECKPOINT_EVERY": "1",
            "CLOUD_RUN_TASK_ATTEMPT": "3",
            "HOLDFAST_EVAL_EVERY": "2",
        }
    )
    assert one.run == other.run
    assert one.run != from_env(REQUIRED | {"HOLDFAST_BATCH_SIZE": "3"}).run


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"CHECKPOINT_DIR": ""}, ["CHECKPOINT_DIR is not set", "/checkpoints"]),
        ({"CHECKPOINT_DIR": "checkpoints"}, ["CHECKPOINT_DIR='checkpoints'", "not an absolute path"]),
        ({"HOLDFAST_STEPS": "many"}, ["HOLDFAST_STEPS='many'", "not a whole number"]),
        ({"HOLDFAST_STEPS": "0"}, ["HOLDFAST_STEPS='0'", "out of range", "1 to"]),
        ({"HOLDFAST_GRACE_SECONDS": "nan"}, ["HOLDFAST_GRACE_SECONDS='nan'", "out of range"]),
        ({"HOLDFAST_STEP_SECONDS_MIN": "1s"}, ["HOLDFAST_STEP_SECONDS_MIN='1s'", "not a number"]),
        ({"CLOUD_RUN_JOB": "../other"}, ["CLOUD_RUN_JOB='../other'", "folder"]),
        ({"HOLDFAST_RUN_ID": ".."}, ["HOLDFAST_RUN_ID='..'", "folder"]),
        ({"HOLDFAST_COORDINATOR": "host"}, ["HOLDFAST_COORDINATOR='host'", "<host>:<port>"]),
        ({"HOLDFAST_PROCESS_COUNT": "2"}, ["HOLDFAST_COORDINATOR is not set", "HOLDFAST_PROCESS_COUNT=2", "process 0"]),
        ({"HOLDFAST_PROCESS_ID": "1"}, ["HOLDFAST_PROCESS_ID=1", "HOLDFAST_PROCESS_COUNT=1"]),
        ({"HOLDFAST_HEADS": "5"}, ["HOLDFAST_MODEL_DIM=64", "HOLDFAST_HEADS=5", "multiple"]),
        ({"CLOUD_RUN_TASK_INDEX": "1"}, ["CLOUD_RUN_TASK_INDEX=1", "CLOUD_RUN_TASK_COUNT=1"]),
        (
            {"HOLDFAST_CHECKPOINTS_EVERY": "5"},
            ["HOLDFAST_CHECKPOINTS_EVERY", "did you mean HOLDFAST_CHECKPOINT_EVERY?"],
        ),
    ],
)
def test_a_mistake_is_named_with_the_way_out(variables: dict[str, str], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        from_env(REQUIRED | variables)
    assert len(str(caught.value).splitlines()) == 1
    for word in words:
        assert word in str(caught.value)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        from_env({"HOLDFAST_SEED": "-1", "HOLDFAST_SEEED": "1"})
    assert len(str(caught.value).splitlines()) == 3


def test_the_contract_names_every_variable_and_exit_code() -> None:
    text = contract()
    for word in ("CHECKPOINT_DIR", "CLOUD_RUN_TASK_ATTEMPT", "HOLDFAST_STEP_SECONDS_MIN", "     3  ", "   143  "):
        assert word in text
