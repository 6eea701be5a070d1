"""How processes find each other: what the environment says, who is missing, and who is not the same."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from processes.training_processes import free_port
from torch.distributed import TCPStore

from kit import Kit, KitError
from kit.distributed.launcher import local_ranks
from kit.distributed.process_group import HostInfo, check_in, open_store, rendezvous
from kit.distributed.rank_info import ProcessMissing, RankInfo, first_host, with_started_devices

SLURM = {
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NTASKS": "8",
    "SLURM_NNODES": "2",
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_NODELIST": "gpu[017-018]",
}


def test_a_process_by_itself_is_not_one_of_many():
    assert RankInfo.from_environment({}) is None
    assert RankInfo.from_environment(SLURM | {"SLURM_NTASKS": "1", "SLURM_NNODES": "1", "SLURM_PROCID": "0"}) is None
    batch_shell = {name: value for name, value in SLURM.items() if name != "SLURM_STEP_ID"}
    assert RankInfo.from_environment(batch_shell) is None


def test_slurm_says_which_process_this_is():
    rank_info = RankInfo.from_environment(SLURM)
    assert rank_info == RankInfo(5, 8, 1, 4, "gpu017", 24711)
    assert (rank_info.node, rank_info.nodes, rank_info.is_main) == (1, 2, False)
    assert RankInfo.from_environment(SLURM | {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "999"}) == RankInfo(
        5, 8, 1, 4, "10.0.0.1", 999
    )


@pytest.mark.parametrize(
    ("hosts", "first"), [("a", "a"), ("a,b", "a"), ("n[03-05,07],x", "n03"), ("n[7,9]", "n7"), ("", "")]
)
def test_the_first_of_slurms_hosts(hosts: str, first: str):
    assert first_host(hosts) == first


def test_what_a_process_is_told_is_what_it_finds():
    rank_info = RankInfo(3, 4, 1, 2, "127.0.0.1", 1234, external_store=True)
    assert RankInfo.from_environment(rank_info.environment()) == rank_info


def test_a_number_that_is_none_is_named():
    with pytest.raises(KitError, match="RANK is 'x'; wanted a whole number"):
        RankInfo.from_environment(RankInfo(0, 2, 0, 2, "a", 1).environment() | {"RANK": "x"})


def test_whoever_starts_the_processes_decides_how_many(tiny):
    training = with_started_devices(tiny("training.devices=3"), RankInfo(0, 8, 0, 4, "a", 1)).training
    assert training is not None and (training.devices, training.nodes) == (4, 2)


def test_nodes_have_to_know_where_to_meet(tiny):
    training = tiny("training.nodes=2", "training.devices=2").training
    with pytest.raises(KitError, match="MASTER_PORT, NODE_RANK not set"):
        local_ranks(training, environment={"MASTER_ADDR": "a"})
    known = {"MASTER_ADDR": "a", "MASTER_PORT": "9", "NODE_RANK": "1"}
    assert [rank_info.rank for rank_info in local_ranks(training, environment=known)] == [2, 3]
    with pytest.raises(KitError, match="NODE_RANK is '2'; wanted 0 to 1"):
        local_ranks(training, environment=known | {"NODE_RANK": "2"})


def test_one_process_does_not_pretend_to_be_many(tiny, kit: Kit):
    with (
        pytest.raises(KitError, match="trained by 2 processes, and this is one alone"),
        rendezvous(tiny("training.devices=2").training, "", print),
    ):
        pass


def host_info(training: str) -> str:
    return json.dumps(asdict(HostInfo.own(training)))


def test_who_is_missing_is_named():
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    store.set("host/2", host_info("same"))
    said: list[str] = []
    named = r"process 1 \(node 0\), 3 \(node 1\) of 4"
    with pytest.raises(ProcessMissing, match=f"{named} did not arrive within 1 s") as error:
        check_in(RankInfo(0, 4, 0, 2, "127.0.0.1", store.port), store, "same", 1.0, said.append)
    host = HostInfo.own("").host
    assert f"arrived: process 0 on {host}, 2 on {host}" in str(error.value)
    assert said == ["waiting for process 1 (node 0), 3 (node 1) of 4"]


@pytest.mark.parametrize(("cores", "times"), [(2, 1), (4, 0)], ids=["too few", "enough"])
def test_more_processes_than_cores_are_warned_of_once(tiny, monkeypatch: pytest.MonkeyPatch, cores: int, times: int):
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    for name, value in RankInfo(0, 4, 0, 4, "127.0.0.1", free_port()).environment().items():
        monkeypatch.setenv(name, value)
    said: list[str] = []
    training = tiny("training.accelerator=cpu", "training.devices=4", "training.timeout=0.5").training
    with pytest.raises(ProcessMissing), rendezvous(training, "", said.append):
        pass
    warnings = [text for text in said if text.startswith("warning: ")]
    assert len(warnings) == times
    for text in warnings:
        assert text.startswith("warning: 4 processes share the 2 cores of ") and "\n" not in text
        assert text.endswith("training.devices=2 is enough here")


def test_a_missing_first_process_is_named():
    with pytest.raises(ProcessMissing, match=r"process 0 is missing: nothing answers at 127.0.0.1:\d+ within 0.5 s"):
        open_store(RankInfo(1, 2, 0, 1, "127.0.0.1", free_port()), 0.5)


def test_processes_that_train_something_else_are_named():
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    store.set("host/1", host_info("other"))
    with pytest.raises(KitError, match=r"process 1 on .* has another recipe than process 0"):
        check_in(RankInfo(0, 2, 0, 2, "127.0.0.1", store.port), store, "same", 5.0, print)


def test_what_cannot_be_spread_is_refused_when_it_is_read(tiny):
    with pytest.raises(KitError, match="the loss cannot be scaled for float16"):
        tiny("training.strategy=fsdp", "training.precision=float16")
