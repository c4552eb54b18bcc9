"""Loops whose input comes from a library of its own; each imports it itself, data are made here."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from support.measure import Job
from support.single import BATCH, data, endless, sgd, train


def stateful_loader(job: Job, workers: int = 2) -> None:
    from torchdata.stateful_dataloader import StatefulDataLoader

    model = nn.Linear(8, 8)
    train(job, endless(StatefulDataLoader(data(), batch_size=BATCH, num_workers=workers)), model, sgd(model))


def stateful_loader_0(job: Job) -> None:
    stateful_loader(job, 0)


def nodes(job: Job) -> None:
    from torchdata import nodes as framework

    model = nn.Linear(8, 8)
    items = framework.IterableWrapper(torch.randn(50, BATCH, 8))
    train(job, endless(framework.Loader(items)), model, sgd(model))


def datasets(job: Job) -> None:
    """A Hugging Face data set in a DataLoader."""
    import datasets as framework

    rows = framework.Dataset.from_dict({"x": torch.randn(50 * BATCH, 8).tolist()}).with_format("torch")
    source: DataLoader[Any] = DataLoader(rows, batch_size=BATCH)
    model = nn.Linear(8, 8)
    train(job, (row["x"] for _ in iter(int, 1) for row in source), model, sgd(model))


def datasets_iter(job: Job) -> None:
    """A Hugging Face data set read by its own iterator."""
    import datasets as framework

    rows = framework.Dataset.from_dict({"x": torch.randn(50 * BATCH, 8).tolist()}).with_format("torch")
    model = nn.Linear(8, 8)
    train(job, (row["x"] for _ in iter(int, 1) for row in rows.iter(BATCH)), model, sgd(model))


def _chunks(job: Job) -> Any:
    """Return a StreamingDataset of LitData's over chunks that are written here."""
    import litdata
    from litdata.streaming.writer import BinaryWriter

    folder = job.folder / "chunks"
    folder.mkdir()
    writer = BinaryWriter(str(folder), chunk_size=20 * BATCH)
    for number, sample in enumerate(torch.randn(50 * BATCH, 8)):
        writer[number] = sample
    writer.done()
    writer.merge()
    return litdata.StreamingDataset(str(folder))


def litdata_loader(job: Job) -> None:
    import litdata

    model = nn.Linear(8, 8)
    train(job, endless(litdata.StreamingDataLoader(_chunks(job), batch_size=BATCH)), model, sgd(model))


def litdata_iter(job: Job) -> None:
    """A StreamingDataset read by its own iterator, sample by sample."""
    samples = endless(_chunks(job))
    model = nn.Linear(8, 8)
    train(job, (torch.stack([next(samples) for _ in range(BATCH)]) for _ in iter(int, 1)), model, sgd(model))


def start_ray(cpus: int) -> Any:
    """Start Ray in processes of its own; return the module."""
    import ray

    ray.init(num_cpus=cpus, include_dashboard=False, object_store_memory=80 * 2**20, logging_level=logging.ERROR)
    return ray


def ray_data(job: Job) -> None:
    """Ray's own processes read; the training has its batches from Ray's object store."""
    ray = start_ray(1)
    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = ray.data.from_numpy(torch.randn(200 * BATCH, 8).numpy())
    model = nn.Linear(8, 8)
    batches = (row["data"] for _ in iter(int, 1) for row in rows.iter_torch_batches(batch_size=BATCH))
    train(job, batches, model, sgd(model))
    ray.shutdown()


def _shards(job: Job) -> Any:
    """Return a WebDataset of one shard, batched by the data set."""
    import webdataset as framework

    shard = str(job.folder / "shard.tar")
    with framework.TarWriter(shard) as writer:
        for number in range(50 * BATCH):
            writer.write({"__key__": f"{number:05d}", "x.pth": torch.randn(8)})
    return framework.WebDataset(shard, shardshuffle=False).decode().to_tuple("x.pth").batched(BATCH)


def webdataset(job: Job) -> None:
    """Shards read by WebLoader."""
    import webdataset as framework

    model = nn.Linear(8, 8)
    train(job, endless(framework.WebLoader(_shards(job), batch_size=None)), model, sgd(model))


def webdataset_raw(job: Job) -> None:
    """Shards read by the data set's own iterator."""
    model = nn.Linear(8, 8)
    train(job, endless(_shards(job)), model, sgd(model))


LOOPS: MappingProxyType[str, Callable[[Job], None]] = MappingProxyType(
    {
        loop.__name__: loop
        for loop in (
            *(
                stateful_loader,
                stateful_loader_0,
                nodes,
                datasets,
                datasets_iter,
                litdata_loader,
                litdata_iter,
                ray_data,
            ),
            *(webdataset, webdataset_raw),
        )
    }
)
