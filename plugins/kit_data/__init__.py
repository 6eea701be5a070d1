"""Data: text files, a pronouncing dictionary, Hugging Face datasets, and synthetic tasks."""

from __future__ import annotations

from kit import Component, hookimpl

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """Returns the data parts, imported on demand."""
    from kit_data.adding import AddingData
    from kit_data.addition import AdditionData
    from kit_data.bank import BankData
    from kit_data.copy import CopyData
    from kit_data.copy_memory import CopyMemoryData
    from kit_data.distant_recall import DistantRecallData
    from kit_data.homonyms import HomonymsData
    from kit_data.huggingface import HuggingfaceData
    from kit_data.labelled_text import LabelledTextData
    from kit_data.listops import ListopsData
    from kit_data.parallel_text import ParallelTextData
    from kit_data.plain_text import PlainTextData
    from kit_data.pronunciations import PronunciationsData
    from kit_data.recall import RecallData
    from kit_data.reverse import ReverseData
    from kit_data.sort import SortData
    from kit_data.two_lookups import TwoLookupsData

    return [
        AddingData,
        AdditionData,
        BankData,
        CopyData,
        CopyMemoryData,
        DistantRecallData,
        HomonymsData,
        HuggingfaceData,
        LabelledTextData,
        ListopsData,
        ParallelTextData,
        PlainTextData,
        PronunciationsData,
        RecallData,
        ReverseData,
        SortData,
        TwoLookupsData,
    ]
