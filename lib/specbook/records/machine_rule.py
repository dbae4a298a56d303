"""Which machines a hardware folder of params/ is for: its `machine.yaml`."""

from fnmatch import fnmatch

from specbook.config import machines
from specbook.errors import ConfigError
from specbook.records.origin import Hardware


class Machine(machines.MachineFile):
    """What a machine must be for a plan's numbers to be those of the folder's name."""

    def fits(self, hardware: Hardware) -> bool:
        """Whether this is such a machine; a slice of a GPU is only one where the pattern says MIG."""
        name = hardware.gpu_name or ""
        whole = " MIG " not in name or "MIG" in self.name
        return self.kind in (None, hardware.kind) and fnmatch(name, self.name) and whole

    def refuse_other(self, hardware: Hardware, folder: str) -> None:
        """Raise ConfigError unless `hardware` fits: what it measured would bear the folder's name."""
        if not self.fits(hardware):
            want = f"{self.kind} {self.name}" if self.name != "*" else self.kind
            raise ConfigError(
                f"params/{machines.folder(folder)} is for {want}, and this machine is {hardware.id}: choose "
                "another --hardware, or copy the folder and say in its machine.yaml which machines it is for"
            )


def load(hardware: str) -> Machine:
    """The machine that the folder of this hardware describes; any machine where it has no `machine.yaml`.

    Raises:
        ConfigError: if the file cannot be used.
    """
    return machines.read(hardware, Machine)
