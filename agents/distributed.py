"""Several processes that train one policy, as `accelerate launch` starts them: who does what, what they exchange.

Every process holds the whole policy and takes every decision, from the same numbers. What takes time is divided among
them: sampling, playing gold plans, scoring, gradients. So:

* what was divided is put together again in the order of the items: results do not depend on who did what;
* a process that has nothing to do takes part in every exchange;
* an error in one process is raised in all; one that dies is noticed by the launcher, which ends the others;
* only the main process writes.

A process that is alone exchanges nothing and imports nothing.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import InfrastructureError, ToolcreditError, UsageError

if TYPE_CHECKING:
    import torch

T = TypeVar("T")

#: Whoever waits longer for the others gives up. Rollouts may differ by hours; dead processes the launcher notices.
PATIENCE = timedelta(hours=24)
#: Gradients are summed in pieces of about so many numbers, so that the copy stays small.
BUCKET = 2**25
_MPI_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")
#: What `accelerate launch` sets for ways to divide a model that nothing here can sample from.
_SHARDED = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED", "ACCELERATE_USE_MEGATRON_LM")


@dataclass(frozen=True)
class Processes:
    """The processes of a run.

    Attributes:
        index: number of this one, from 0.
        size: how many there are.
        device: where this one's model belongs; None if that is not decided here.
        objects: the group that exchanges Python objects, over the CPU.
    """

    index: int = 0
    size: int = 1
    device: str | None = None
    objects: Any = None

    @property
    def is_main(self) -> bool:
        """Whether this process is the one that writes."""
        return self.index == 0

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """This process's part of some work: neighbours, as many as the others have, or one more."""
        return items[len(items) * self.index // self.size : len(items) * (self.index + 1) // self.size]

    def gather(self, make: Callable[[], T]) -> list[T]:
        """What `make` returns in each process, in their order.

        Raises:
            UsageError, InfrastructureError: `make` did so somewhere; all processes raise it.
        """
        if self.size == 1:
            return [make()]
        import torch.distributed as dist

        own: tuple[Any, tuple[bool, str] | None]
        try:
            own = make(), None
        except ToolcreditError as error:
            own = None, (isinstance(error, UsageError), str(error))
        outcomes: list[Any] = [None] * self.size
        dist.all_gather_object(outcomes, own, group=self.objects)
        for index, (_, failure) in enumerate(outcomes):
            if failure is not None:
                usage, message = failure
                where = f"process {index}: " if index else ""
                raise (UsageError if usage else InfrastructureError)(f"{where}{message}")
        return [value for value, _ in outcomes]

    def divide(self, work: Callable[[Sequence[Any]], Sequence[T]], items: Sequence[Any]) -> list[T]:
        """`work(items)`, each process working on its share."""
        return [result for part in self.gather(lambda: work(self.share(items))) for result in part]

    def agree(self, make: Callable[[], T]) -> T:
        """What `make` returns in the main process, which alone calls it."""
        found = self.gather(lambda: make() if self.is_main else None)
        return found[0]  # type: ignore[return-value]

    def sums(self, values: Mapping[str, float]) -> dict[str, float]:
        """The sum of each value over all processes; one that a process does not have counts as 0 there."""
        parts = self.gather(lambda: dict(values))
        return {name: sum(part.get(name, 0) for part in parts) for part in parts for name in part}

    def sum_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Replace each gradient by its sum over all processes; a missing one counts as 0."""
        if self.size == 1:
            return
        import torch
        import torch.distributed as dist

        for bucket in _buckets(parameters):
            parts = [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket]
            total = torch.cat(parts)
            dist.all_reduce(total)
            for p, part in zip(bucket, total.split([p.numel() for p in bucket]), strict=True):
                p.grad = part.view_as(p)

    def take_main(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Give all processes the main one's weights."""
        if self.size == 1:
            return
        import torch.distributed as dist

        for tensor in weights.values():
            dist.broadcast(tensor.data, 0)

    def check_equal(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Find out whether all processes still have the same weights.

        Raises:
            InfrastructureError: they do not, so that the gradients of some belong to other weights.
        """
        own = [float(tensor.detach().double().sum()) for tensor in weights.values()] if self.size > 1 else []
        if len({tuple(sums) for sums in self.gather(lambda: own)}) > 1:
            raise InfrastructureError(
                "the processes no longer have the same weights: use devices of one kind, and the same versions"
            )


def _buckets(parameters: Iterable[torch.nn.Parameter]) -> Iterator[list[torch.nn.Parameter]]:
    """Parameters of one type in groups of about `BUCKET` numbers."""
    bucket: list[torch.nn.Parameter] = []
    for p in parameters:
        if bucket and (p.dtype != bucket[0].dtype or sum(q.numel() for q in bucket) + p.numel() > BUCKET):
            yield bucket
            bucket = []
        bucket.append(p)
    if bucket:
        yield bucket


def launched() -> bool:
    """Whether a launcher (torch's, which accelerate uses, or MPI's) started this process as one of several."""
    sizes = [
        os.environ.get(name, "") for name in (*_MPI_SIZES, *(["WORLD_SIZE"] if "LOCAL_RANK" in os.environ else []))
    ]
    return any(size.isdecimal() and int(size) > 1 for size in sizes)


@lru_cache(maxsize=1)
def processes() -> Processes:
    """The processes of this run; connects them when it is first called in each.

    Raises:
        UsageError: the launcher was told to divide the model itself.
    """
    if not launched():
        return Processes()
    for variable in _SHARDED:
        if _is_set(variable):
            raise UsageError(
                f"{variable} is set, but every process here holds the whole model, with which it also samples: launch "
                "with --multi_gpu, or on the CPU with --cpu"
            )
    import torch.distributed as dist
    from accelerate import PartialState

    state = PartialState(cpu=_on_cpu(), timeout=PATIENCE)
    if state.process_index > 0:
        logging.getLogger(__name__.partition(".")[0]).setLevel(logging.ERROR)  # the main one says the same
    if state.num_processes == 1:
        raise UsageError(
            "several processes were started, but they cannot be joined: start them with `accelerate launch` or torchrun"
        )
    objects = dist.new_group(backend="gloo", timeout=PATIENCE)
    atexit.register(_leave)
    return Processes(state.process_index, state.num_processes, str(state.device), objects)


def _leave() -> None:
    """Disconnect: threads of a connection that are there when the interpreter goes now and then abort the process."""
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()


def _on_cpu() -> bool:
    """Whether to use the CPU: `accelerate launch --cpu` says so, and without an accelerator there is no choice."""
    import torch

    return _is_set("ACCELERATE_USE_CPU") or not torch.accelerator.is_available()


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in ("1", "true", "yes")
