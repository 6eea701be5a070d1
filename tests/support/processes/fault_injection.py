"""A plugin that injects a fault into a training: which one, in which process and at which step the environment says."""

from __future__ import annotations

FAULTY_PLUGIN = """
import hashlib, os, signal, time
from pathlib import Path
import pytorch_lightning as lightning
import torch
from kit import hookimpl

kit_api = 1
WHAT, RANK, STEP = os.environ.get("TROUBLE", "none:0:0").split(":")

def slowly(*given):
    Path("measuring").touch()
    time.sleep({"metric": 100, "layers": 2}[WHAT])

if WHAT == "metric":
    from kit_metric.token_error import TokenErrorMetric
    TokenErrorMetric.measure = slowly

class Trouble(lightning.Callback):
    def on_train_start(self, trainer, module):
        if WHAT == "layers":
            norm = next(layer for layer in reversed(list(module.modules())) if "Norm" in type(layer).__name__)
            norm.register_forward_pre_hook(lambda layer, given: None if layer.training else slowly())

    def on_train_batch_start(self, trainer, module, batch, number):
        if trainer.global_rank != int(RANK) or number + 1 != int(STEP):
            return
        if WHAT == "sleep":
            time.sleep(1000)
        if WHAT == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if WHAT == "nan":
            for layer in module.modules():
                if isinstance(layer, torch.nn.Linear):
                    layer.register_forward_hook(lambda layer, given, out: out * float("nan"))
                    break

    def on_train_batch_end(self, trainer, module, outputs, batch, number):
        self.note(trainer, module, f"after-{number + 1}")

    def on_exception(self, trainer, module, exception):
        self.note(trainer, module, f"exception-{type(exception).__name__}")

    def note(self, trainer, module, name):
        if WHAT == "nan":
            held = [getattr(value, "_local_tensor", value).detach().numpy().tobytes() for value in module.parameters()]
            text = hashlib.sha256(b"".join(held)).hexdigest()
            Path(f"note-{trainer.global_rank}-{name}").write_text(text)

@hookimpl
def kit_callbacks(recipe):
    return [Trouble()]
"""
