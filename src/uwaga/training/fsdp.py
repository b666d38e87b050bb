"""FSDP2: each process stores a shard of every weight, gradient and moment (Zhao 2023; Rajbhandari 2020)."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Iterator, Sequence

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from uwaga.data.batches import Batch
from uwaga.models.base import Seq2Seq
from uwaga.models.blocks import DecoderBlock
from uwaga.models.transformer import Transformer
from uwaga.settings import TrainingSettings
from uwaga.training.loss import Loss
from uwaga.training.ranks import Ranks, distribute_like, to_full_tensor
from uwaga.training.step import BatchPart, TrainableModel, Updater, batch_loss


class ShardedModel(nn.Module):
    """A sharded copy of a model, whose forward pass returns the loss of a batch.

    The weights of each block of a Transformer are gathered before the block is computed and freed afterwards.
    The remaining weights of a Transformer, and all weights of other models, are gathered for an entire batch.
    The loss is computed in this module because it uses the weights of the output layer.
    """

    def __init__(
        self, model: Seq2Seq, settings: TrainingSettings, ranks: Ranks, device: torch.device
    ) -> None:
        super().__init__()
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

        # The warning is about in-place operations on outputs of blocks; there are none.
        warnings.filterwarnings("ignore", "FSDP2-wrapped module", UserWarning)
        self.model = copy.deepcopy(model)
        self.settings = settings
        mesh = init_device_mesh(device.type, (ranks.world,))
        if isinstance(model, Transformer):
            stacks = (self.model.get_submodule(name) for name in ("encoder", "decoder"))
            for block in (block for stack in stacks for block in stack.children()):
                if isinstance(
                    block, DecoderBlock
                ):  # its keys and values are computed before its forward pass
                    fully_shard(block.cross_attention, mesh=mesh)
                    register_fsdp_forward_method(block.cross_attention, "project")
                fully_shard(block, mesh=mesh)
        self.sharded = fully_shard(self, mesh=mesh)

    def forward(self, batch: Batch) -> Loss:
        """Return the loss of a batch."""
        settings = self.settings
        return batch_loss(
            self.model, batch, settings.label_smoothing, settings.precision, settings.guided_alignment
        )


class ShardedTrainableModel(TrainableModel):
    """The weight shards of this process; on demand, full weights are copied to the run's model on the CPU."""

    def __init__(
        self, model: Seq2Seq, settings: TrainingSettings, ranks: Ranks, device: torch.device
    ) -> None:
        self.sharded, self.device = ShardedModel(model, settings, ranks, device), device
        super().__init__(self.sharded.model, settings, ranks)

    def updater(self, optimiser: torch.optim.Optimizer) -> Updater:
        return ShardedUpdater(self.sharded, optimiser, self.settings, self.ranks)

    @torch.no_grad()
    def copy_from(self, model: Seq2Seq) -> None:
        for sharded, parameter in zip(self.model.parameters(), model.parameters(), strict=True):
            sharded.copy_(distribute_like(parameter, sharded))

    @torch.no_grad()
    def copy_to(self, model: Seq2Seq, keep: bool) -> None:
        with self.ranks.connection_errors():
            for sharded, parameter in zip(self.model.parameters(), model.parameters(), strict=True):
                full_tensor = to_full_tensor(sharded)
                if keep:
                    parameter.copy_(full_tensor)

    @contextlib.contextmanager
    def on_device(self, model: Seq2Seq) -> Iterator[None]:
        original_device = model.device
        model.to(self.device)
        try:
            yield
        finally:
            model.to(original_device)


class ShardedUpdater(Updater):
    """Updates a sharded model; each process computes one batch at a time, without splitting it."""

    def __init__(
        self, model: ShardedModel, optimiser: torch.optim.Optimizer, settings: TrainingSettings, ranks: Ranks
    ) -> None:
        super().__init__(model, optimiser, settings, ranks)
        self.all_workers = 1
        self._sharded = model

    def backward(self, parts: Sequence[BatchPart], tokens: int, step: int) -> tuple[float, float]:
        losses = torch.zeros(2, dtype=torch.float64)
        with self.ranks.connection_errors():
            for part in parts:
                self._sharded.sharded.set_requires_gradient_sync(part is parts[-1])
                loss = self.loss(part, step)
                # FSDP averages gradients over the processes.
                (loss.smoothed * (self.ranks.world / tokens)).backward()  # type: ignore[no-untyped-call]
                losses += torch.stack([loss.smoothed.detach(), loss.plain]).to("cpu", torch.float64)
        self.ranks.sum_tensors([losses])
        return float(losses[0]), float(losses[1])

    def forward(self, batch: Batch) -> Loss:
        loss: Loss = self._sharded(batch)
        return loss
