"""frazil as a contender."""

import torch

from engine import Failed, Plan


class Declined(Exception):
    """A contender does not take the cell; why."""


class Frazil:
    """`which`: an engine, or one of its plans by its position among them (`sm80@1`); None: the router's first
    plan."""

    def __init__(self, library, which=None, name=None):
        self.library, self.which = library, which
        engine, _, position = (which or "").partition("@")
        self.engine, self.position = engine or None, int(position or 0)
        self.name = name or "frazil" + (f" {which}" if which else "")

    @property
    def versions(self):
        return "frazil"

    def bind(self, problem):
        device = f"cuda:{torch.cuda.current_device()}"
        try:
            plan = Plan(self.library, problem.cell.case(), self.engine, device, self.position)
        except Failed as failed:
            if failed.status == "declined":
                raise Declined(str(failed)) from None
            raise
        return Bound(plan, problem)


class Bound:
    """A plan with calls for every set, made beforehand."""

    note = ""

    def __init__(self, plan, problem):
        self.plan, self.problem = plan, problem
        self.workspace = torch.empty(plan.workspace_bytes + 256, dtype=torch.uint8, device="cuda")
        aligned = -(-self.workspace.data_ptr() // 256) * 256
        self.calls = []
        for tensors in problem.sets:
            memory = {role: memory_of(tensor) for role, tensor in self._roles(tensors).items()}
            self.calls.append(plan.call(memory, (aligned, plan.workspace_bytes)))

    def _roles(self, tensors):
        roles = {"q": tensors.q, "k": tensors.k, "v": tensors.v, "o": tensors.o}
        if self.problem.prefix is not None:
            roles.update(q_prefix=self.problem.prefix, kv_prefix=self.problem.prefix)
        if self.problem.lengths is not None:
            roles.update(q_lengths=self.problem.lengths, kv_lengths=self.problem.lengths)
        return roles

    @property
    def about(self):
        return self.plan.about

    def run(self, at):
        call = self.calls[at]
        call.stream = torch.cuda.current_stream().cuda_stream
        self.plan.execute(call)
        return self.problem.sets[at].o

    def run_often(self, at, repeats):
        """The same call so often without Python between."""
        call = self.calls[at]
        call.repeats = repeats
        try:
            self.run(at)
        finally:
            call.repeats = 1

    def error_word(self):
        """Bits of the last execute; 0 where the plan has none."""
        offset = self.about["error_word"]
        if offset is None:
            return 0
        start = -self.workspace.data_ptr() % 256 + offset
        return int(self.workspace[start : start + 4].view(torch.int32).item())

    def release(self):
        self.plan.release()


def memory_of(tensor):
    return tensor.data_ptr(), tensor.numel() * tensor.element_size()
