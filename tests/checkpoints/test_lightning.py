"""Lightning trains, saves and resumes through the kit's format, and never pickles."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as lightning
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint, Timer
from torch.utils.data import DataLoader

from kit.checkpoints.lightning import SafeCheckpointIO, as_state
from kit.files.atomic import CheckpointError, DamagedCheckpoint

from .samples import any_store

pytestmark = pytest.mark.filterwarnings("ignore")


class Line(lightning.LightningModule):
    """A model with dropout-free training, so that a resumed run has to equal an uninterrupted one."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(width, 1)

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        loss = self.layer(batch).square().mean()
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: torch.Tensor, index: int) -> None:
        self.log("checked", self.layer(batch).square().mean())

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.1, fused=True)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def trainer(folder: Path, epochs: int) -> lightning.Trainer:
    keep = ModelCheckpoint(dirpath=folder, monitor="checked", save_top_k=2, save_last=True)
    return lightning.Trainer(
        accelerator="cpu", max_epochs=epochs, callbacks=[keep, EarlyStopping("checked", patience=9), Timer()],
        plugins=[SafeCheckpointIO()], logger=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip


def data() -> DataLoader[torch.Tensor]:
    return DataLoader(torch.randn(16, 4, generator=torch.Generator().manual_seed(0)), batch_size=4)  # type: ignore[arg-type]


@pytest.fixture
def no_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **named: Any) -> None:
        raise AssertionError("something was pickled or unpickled")

    for module, name in ((torch, "save"), (torch, "load"), (pickle, "dump"), (pickle, "load"), (pickle, "loads")):
        monkeypatch.setattr(module, name, refuse)


@pytest.mark.usefixtures("no_pickle")
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    torch.manual_seed(0)
    start = {name: tensor.clone() for name, tensor in Line().state_dict().items()}

    def fresh() -> Line:
        model = Line()
        model.load_state_dict(start)
        return model

    whole = fresh()
    trainer(tmp_path / "whole", 4).fit(whole, data(), data())
    trainer(tmp_path / "parts", 2).fit(fresh(), data(), data())
    resumed = fresh()
    again = trainer(tmp_path / "parts", 4)
    again.fit(resumed, data(), data(), ckpt_path=str(tmp_path / "parts" / "last.ckpt"))
    assert again.global_step == 16
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name])


def test_a_checkpoint_dictionary_comes_back_whole(tmp_path: Path) -> None:
    from .test_state_codec import same

    training = trainer(tmp_path, 1)
    training.fit(Line(), data(), data())
    dictionary = training._checkpoint_connector.dump_checkpoint()
    SafeCheckpointIO().save_checkpoint(dictionary, tmp_path / "a.ckpt")
    loaded = SafeCheckpointIO().load_checkpoint(tmp_path / "a.ckpt")
    assert loaded.keys() == dictionary.keys()
    assert {"callbacks", "loops", "optimizer_states", "lr_schedulers", "hyper_parameters"} <= loaded.keys()
    for key in dictionary.keys() - {"state_dict"}:
        assert same(loaded[key], dictionary[key]), key
    assert same(loaded["state_dict"], dict(sorted(dictionary["state_dict"].items(), key=lambda item: list(
        loaded["state_dict"]).index(item[0]))))  # fmt: skip


def test_what_a_store_saved_resumes_in_lightning(tmp_path: Path) -> None:
    first = trainer(tmp_path / "first", 1)
    first.fit(Line(), data(), data())
    store = any_store(tmp_path / "store", run="x")
    store.save(first.global_step, as_state(first._checkpoint_connector.dump_checkpoint()))
    second = trainer(tmp_path / "second", 2)
    second.fit(Line(), data(), data(), ckpt_path=store.load_latest().path)
    assert second.global_step == 8


def test_damage_and_wrong_paths_are_named(tmp_path: Path) -> None:
    plugin = SafeCheckpointIO()
    plugin.save_checkpoint({"state_dict": {"a": torch.ones(3)}, "global_step": 3}, tmp_path / "a.ckpt")
    with pytest.raises(CheckpointError, match="found nothing"):
        plugin.load_checkpoint(tmp_path / "b.ckpt")
    (tmp_path / "a.ckpt" / "training.json").write_text("{}")
    with pytest.raises(DamagedCheckpoint, match=r"a\.ckpt is damaged: training\.json"):
        plugin.load_checkpoint(tmp_path / "a.ckpt")
    with pytest.raises(CheckpointError, match=r"state\['callbacks'\]"):
        plugin.save_checkpoint({"callbacks": object()}, tmp_path / "c.ckpt")
    plugin.remove_checkpoint(tmp_path / "a.ckpt")
    assert not list(tmp_path.iterdir())
