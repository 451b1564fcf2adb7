"""What a GPU says of itself while it works: NVML by ctypes. Settings are never changed."""

import ctypes
from dataclasses import dataclass

SM_CLOCK = 1
GPU_TEMPERATURE = 0
# Bits of nvmlDeviceGetCurrentClocksThrottleReasons (nvml.h); idle and the settings of applications say
# nothing of a limit.
REASONS = {
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
}


@dataclass(frozen=True)
class Sample:
    """Zeros where it cannot be read."""

    sm_mhz: int = 0
    power_w: float = 0.0
    temperature_c: int = 0
    reasons: int = 0

    @property
    def throttle(self):
        return " ".join(name for bit, name in REASONS.items() if self.reasons & bit)


class Clocks:
    """One GPU, by its PCI address, since NVML numbers GPUs otherwise than CUDA does."""

    def __init__(self, pci_bus_id):
        self.nvml = None
        self.driver = ""
        try:
            nvml = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        self.handle = ctypes.c_void_p()
        found = nvml.nvmlInit_v2() == 0
        found = found and nvml.nvmlDeviceGetHandleByPciBusId_v2(pci_bus_id.encode(), ctypes.byref(self.handle)) == 0
        if not found:
            return
        text = ctypes.create_string_buffer(96)
        if nvml.nvmlSystemGetDriverVersion(text, 96) == 0:
            self.driver = text.value.decode()
        self.nvml = nvml

    def sample(self):
        if self.nvml is None:
            return Sample()
        clock, power, heat, reasons = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint(), ctypes.c_ulonglong()
        nvml, handle = self.nvml, self.handle
        nvml.nvmlDeviceGetClockInfo(handle, SM_CLOCK, ctypes.byref(clock))
        nvml.nvmlDeviceGetPowerUsage(handle, ctypes.byref(power))
        nvml.nvmlDeviceGetTemperature(handle, GPU_TEMPERATURE, ctypes.byref(heat))
        nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle, ctypes.byref(reasons))
        return Sample(clock.value, power.value / 1000, heat.value, reasons.value)
