"""A task's folder as seen without JAX: which checkpoints are complete, and what a retry will therefore do."""

from pathlib import Path

CHECKPOINTS = "checkpoints"
COMMIT = "commit_success.txt"  # Orbax's name; written last, so what has it is complete


def newest_checkpoint(task_dir: Path) -> int | None:
    """The step of the newest complete checkpoint, damaged or not; None when there is none. Raises OSError."""
    folders = [path.parent.name for path in (task_dir / CHECKPOINTS).glob(f"*/{COMMIT}")]
    return max((int(name) for name in folders if name.isdecimal()), default=None)


class Outlook:
    """What a retry will find, in words. Kept at hand, since a mount that hangs must not hold the last line back."""

    def __init__(self, text: str):
        self.text = text

    def saved(self, step: int | None) -> None:
        """`step` is the newest one saved; None: there is none."""
        self.text = (
            "no checkpoint is saved yet, so a retry starts from step 0"
            if step is None
            else f"step {step} is saved, and a retry resumes from it"
        )
