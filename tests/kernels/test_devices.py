"""A device that was asked for and is not there is named, with those that are."""

from __future__ import annotations

import pytest
import torch

from kit import KitError, load_run
from kit.kernels.devices import device_called


@pytest.fixture
def _two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)


@pytest.fixture
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.usefixtures("_no_gpu")
@pytest.mark.parametrize("name", ["cuda", "cuda:0", "mps", "meta", "cpu:1"])
def test_one_that_is_not_here_is_named(name: str) -> None:
    with pytest.raises(KitError, match=rf"the device '{name}' is not here; there is cpu on .*\n    name one of these"):
        device_called(name)


@pytest.mark.usefixtures("_no_gpu")
@pytest.mark.parametrize("name", ["nonsense", "", "cuda:x", "cuda:-1"])
def test_nonsense_is_named(name: str) -> None:
    with pytest.raises(KitError, match=rf"the device '{name}' is none that torch knows; there is cpu on "):
        device_called(name)


@pytest.mark.usefixtures("_two_gpus")
def test_those_that_are_here_are_taken() -> None:
    assert [str(device_called(name)) for name in ("cpu", "cuda", "cuda:1")] == ["cpu", "cuda", "cuda:1"]
    with pytest.raises(KitError, match="'cuda:2' is not here; there is cpu and cuda:0 and cuda:1 on "):
        device_called("cuda:2")


@pytest.mark.usefixtures("_no_gpu")
def test_left_out_it_is_the_best() -> None:
    assert device_called(None) == torch.device("cpu")


@pytest.mark.usefixtures("_no_gpu")
def test_a_run_is_not_opened_on_one() -> None:
    with pytest.raises(KitError, match="the device 'cuda' is not here"):
        load_run("whichever", device="cuda")
