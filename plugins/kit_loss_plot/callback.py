"""A Lightning callback that plots training and validation loss over the steps when training ends."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytorch_lightning as lightning

from kit import MetricsFile


class LossPlot(lightning.Callback):
    """Writes `reports/loss.png` of the run, on rank 0; a note takes its place where matplotlib is not installed."""

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Plot the metrics that were logged; the trainer's folder is that of the run."""
        if not trainer.is_global_zero:
            return
        try:
            if plot_losses(Path(trainer.default_root_dir)) is None:
                print("no plot of the loss, because matplotlib is missing: pip install 'kitformer[plots]'")
        except (OSError, ValueError) as error:
            print(f"no plot of the loss, which is only a report: {error}")


def plot_losses(run: Path) -> Path | None:
    """Plot `metrics.csv` of a run's folder and return the path of the picture; None where matplotlib is missing."""
    if find_spec("matplotlib") is None:
        return None
    figure = import_module("matplotlib.figure").Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    rows = MetricsFile(run / "metrics.csv").rows()
    for column, label in (("loss", "training"), ("validation_loss", "validation")):
        points = [(int(row["step"]), float(row[column])) for row in rows if row.get(column)]
        if points:
            style = {"linewidth": 0.7} if column == "loss" else {"marker": "o", "markersize": 3}
            axes.plot(*zip(*points, strict=True), label=label, **style)
    folder = run.resolve()
    axes.set(xlabel="step", ylabel="loss (nats a prediction)", title=f"{folder.parent.name}/{folder.name}")
    axes.grid(alpha=0.3)
    axes.legend()
    path = run / "reports" / "loss.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return path
