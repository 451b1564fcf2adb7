"""`libfrazil_bench.so` by ctypes: `crates/bench-so` has the C side."""

import ctypes
import glob
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
STATUS = {1: "misuse", 2: "declined", 3: "fault"}


class Memory(ctypes.Structure):
    _fields_ = [("addr", ctypes.c_uint64), ("bytes", ctypes.c_uint64)]


class Question(ctypes.Structure):
    _fields_ = [
        ("case", ctypes.c_char_p),
        ("engine", ctypes.c_char_p),
        ("device", ctypes.c_char_p),
        ("position", ctypes.c_uint32),
    ]


class Call(ctypes.Structure):
    _fields_ = [
        ("tensors", ctypes.POINTER(Memory)),
        ("num_tensors", ctypes.c_uint64),
        ("workspace", Memory),
        ("stream", ctypes.c_uint64),
        ("repeats", ctypes.c_uint32),
    ]


class Launch(ctypes.Structure):
    _fields_ = [
        ("function", ctypes.c_uint64),
        ("stream", ctypes.c_uint64),
        ("params_bytes", ctypes.c_uint32),
        ("repeats", ctypes.c_uint32),
    ]


class Failed(Exception):
    """What the library says; `status` is `misuse`, `declined` or `fault`."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Library:
    def __init__(self, path=None):
        self.dll = ctypes.CDLL(path or os.path.join(HERE, "libfrazil_bench.so"))
        self.dll.frazil_bench_message.restype = ctypes.c_char_p
        self.dll.frazil_bench_describe.restype = ctypes.c_char_p
        self.dll.frazil_bench_describe.argtypes = [ctypes.c_void_p]
        self.dll.frazil_bench_workspace_bytes.restype = ctypes.c_uint64
        self.dll.frazil_bench_workspace_bytes.argtypes = [ctypes.c_void_p]
        self.dll.frazil_bench_plan.argtypes = [ctypes.POINTER(Question), ctypes.POINTER(ctypes.c_void_p)]
        self.dll.frazil_bench_execute.argtypes = [ctypes.c_void_p, ctypes.POINTER(Call)]
        self.dll.frazil_bench_launch.argtypes = [ctypes.c_uint32, ctypes.POINTER(Launch)]
        self.dll.frazil_bench_release.argtypes = [ctypes.c_void_p]
        self.dll.frazil_bench_release.restype = None

    def check(self, status):
        if status:
            message = self.dll.frazil_bench_message().decode(errors="replace")
            raise Failed(STATUS.get(status, str(status)), message)

    def launch(self, ordinal, launch):
        """Launches a kernel of one block and one warp, which takes its parameters by value."""
        self.check(self.dll.frazil_bench_launch(ordinal, launch))


class Plan:
    """A plan of the library. `engine`: a name, or None for the router's first."""

    def __init__(self, library, case, engine=None, device="cuda:0", position=0):
        self.library = library
        self.handle = ctypes.c_void_p()
        engine = engine.encode() if engine is not None else None
        question = Question(case.encode(), engine, device.encode(), position)
        library.check(library.dll.frazil_bench_plan(question, self.handle))
        self.about = json.loads(library.dll.frazil_bench_describe(self.handle))
        self.workspace_bytes = library.dll.frazil_bench_workspace_bytes(self.handle)

    def call(self, addresses, workspace, stream=0, repeats=1):
        """What `execute` takes: made once, used often.

        `addresses`: address and bytes by role, as `tensors` of `about` names them; `workspace`: the same.
        """
        roles = [tensor["role"] for tensor in self.about["tensors"]]
        if set(roles) != set(addresses):
            raise ValueError(f"given {sorted(addresses)}, the plan has {sorted(roles)}")
        tensors = (Memory * len(roles))(*(Memory(*addresses[role]) for role in roles))
        return Call(tensors, len(roles), Memory(*workspace), stream, repeats)

    def execute(self, call):
        self.library.check(self.library.dll.frazil_bench_execute(self.handle, call))

    def release(self):
        self.library.dll.frazil_bench_release(self.handle)
        self.handle = ctypes.c_void_p()


def name_nvrtc():
    """Says where NVRTC is, where nothing says so: in a package of Python beside this one."""
    for folder in sys.path:
        for pattern in ["nvidia/cu1*/lib", "nvidia/cuda_nvrtc/lib"]:
            for found in sorted(glob.glob(os.path.join(folder, pattern)), reverse=True):
                if glob.glob(os.path.join(found, "libnvrtc.so.*")):
                    os.environ.setdefault("FRAZIL_NVRTC", found)
                    return
