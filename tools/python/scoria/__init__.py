"""Transformer models on any GPU with a Vulkan driver.

    engine = scoria.Engine("model.gguf")
    session = engine.session()
    session.append(engine.chat([{"role": "user", "content": "Hello"}]))
    for token in session.generate(max_tokens=100):
        print(token.text, end="", flush=True)

Engines may be shared by threads; a session does one thing at a time. The GIL is released while the library works.
What was made before a fork is refused in the child, which makes an engine of its own (multiprocessing: "spawn").
"""
from __future__ import annotations

import asyncio
import json
import os
from typing import (
    Any,
    AsyncIterator,
    Callable,
    Generic,
    Iterable,
    Iterator,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
    Union,
)

import numpy as np
import numpy.typing as npt

from . import _scoria
from ._error import Error
from ._scoria import GenerateOptions

__all__ = ["Answers", "Engine", "Error", "GenerateOptions", "Session", "Stream", "Token", "devices", "__version__"]
__version__: str = _scoria.version()

Ids = Union[Sequence[int], npt.NDArray[Any]]
_PRECISIONS = ("strict", "balanced", "fast")
_CACHES = ("by precision", "f32", "f16", "bf16", "q8_0", "q4_0")
_POOLINGS = (None, "mean", "first", "last")


def devices() -> list[dict[str, Any]]:
    """The machine's Vulkan devices: index, name, driver, type, chosen, unusable (why; "" if it is not)."""
    return _scoria.devices()


def _one_of(name: str, value: Any, choices: Sequence[Any]) -> int:
    if value not in choices:
        raise ValueError(f"expected {name} to be one of {', '.join(map(str, choices))}, got {value!r}")
    return choices.index(value)


def _ids(ids: Ids) -> npt.NDArray[np.int32]:
    given = np.asarray(ids)
    whole = given.size == 0 or np.issubdtype(given.dtype, np.integer)
    if not whole or (given.size and (given.min() < 0 or given.max() > np.iinfo(np.int32).max)):
        raise ValueError(f"expected token ids, whole numbers below 2^31, got {ids!r:.60}")
    if given.size > max(given.shape, default=1):
        raise ValueError(f"expected the ids of one sequence, got an array of shape {given.shape}")
    return np.ascontiguousarray(given, np.int32).reshape(-1)


def _set(target: Any, name: str, value: Any) -> None:
    try:
        setattr(target, name, value)
    except (AttributeError, TypeError):
        raise TypeError(f"expected another type or range of {name} than {value!r:.60}") from None


def _options(options: Optional[GenerateOptions], members: Mapping[str, Any]) -> GenerateOptions:
    options = GenerateOptions(options) if options else GenerateOptions()
    for name, value in members.items():
        if name == "draft":
            options.set_draft(None if value is None else value._inner)
            continue
        if not hasattr(GenerateOptions, name):
            raise TypeError(f"expected a member of GenerateOptions, got {name!r}")
        _set(options, name, value)
    return options


class Token(NamedTuple):
    """A token and the text that is certain with it, often of several tokens or of none. id is -1 for what the
    end sets free."""

    id: int
    text: str


T = TypeVar("T")


class _Pieces(Generic[T]):
    """What is generated, as it is: for `for` and `async for`."""

    def _next(self) -> Optional[T]:
        raise NotImplementedError

    def cancel(self) -> None:
        """Ends the generation; tokens that wait can still be read. From any thread."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        try:
            piece = self._next()
        except KeyboardInterrupt:
            self.cancel()  # what it held is free again
            raise
        if piece is None:
            raise StopIteration
        return piece

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        try:
            piece = await asyncio.to_thread(self._next)
        except asyncio.CancelledError:
            self.cancel()
            raise
        if piece is None:
            raise StopAsyncIteration
        return piece


class Stream(_Pieces[Token]):
    """Tokens as they are generated, for `for` and `async for`. The session is in use until it ends."""

    def __init__(self, inner: _scoria.Stream) -> None:
        self._inner = inner

    def _next(self) -> Optional[Token]:
        token = self._inner.next()
        return None if token is None else Token(token[0], token[1].decode("utf-8", "replace"))

    def cancel(self) -> None:
        self._inner.cancel()

    @property
    def stop_reason(self) -> Optional[str]:
        """Why it ended: "end", "token_limit", "context_full", "cancelled" or "text"; None while it runs."""
        return self._inner.stop_reason()


class Answers(_Pieces[Tuple[int, Token]]):
    """Tokens of several answers as they are generated, each with the index of its prompt, for `for` and
    `async for`. An answer that fails leaves the others alone; its error is raised behind the last token."""

    def __init__(self, inner: _scoria.Answers) -> None:
        self._inner = inner

    def _next(self) -> Optional[Tuple[int, Token]]:
        token = self._inner.next()
        return None if token is None else (token[0], Token(token[1], token[2].decode("utf-8", "replace")))

    def cancel(self) -> None:
        self._inner.cancel()

    @property
    def stop_reasons(self) -> Optional[list[str]]:
        """Why each ended, as a stream's, or "failed"; None while any runs."""
        return self._inner.stop_reasons()


class Engine:
    """A model on a device."""

    def __init__(
        self,
        model: Union[str, os.PathLike[str]],
        *,
        device: str = "",
        context: int = 0,
        precision: str = "balanced",
        kv: str = "by precision",
        adapters: Iterable[Tuple[str, float]] = (),
        cache_folder: str = "",
        memory_budget: int = 0,
        prompt_chunk: int = 0,
        sequences: int = 1,
        shared_context: int = 0,
        submission_ms: float = 0,
        deterministic: bool = False,
        mmap: bool = False,
        layer_ahead: bool = False,
        shows_hidden: bool = False,
        progress: Optional[Callable[[int, int], Optional[bool]]] = None,
    ) -> None:
        """Loads a GGUF file or a Hugging Face folder. What each option means is in scoria.h; `progress` gets
        bytes done and in all, and stops the loading by returning False."""
        a = _scoria.EngineArguments()
        a.set_model(os.fsencode(model))
        a.set_cache_folder(os.fsencode(cache_folder))
        for path, scale in adapters:
            a.add_adapter(os.fsencode(path), scale)
        members = {
            "device": device,
            "progress": progress,
            "context": context,
            "memory_budget": memory_budget,
            "prompt_chunk": prompt_chunk,
            "sequences": sequences,
            "shared_context": shared_context,
            "precision": _one_of("precision", precision, _PRECISIONS),
            "kv": _one_of("kv", kv, _CACHES),
            "submission_ms": submission_ms,
            "deterministic": deterministic,
            "mmap": mmap,
            "layer_ahead": layer_ahead,
            "shows_hidden": shows_hidden,
        }
        for name, value in members.items():
            _set(a, name, value)
        self._inner = _scoria.Engine(a)

    @property
    def info(self) -> dict[str, Any]:
        """Names, sizes and special tokens of the model, and its device."""
        return self._inner.info()

    @property
    def memory(self) -> dict[str, int]:
        """Bytes of weights, cache and scratch, of the heap, and in use now."""
        return self._inner.memory()

    def session(self) -> Session:
        return Session(self)

    def generate_many(self, prompts: Iterable[Ids], options: Optional[GenerateOptions] = None, **members: Any) -> Answers:
        """Starts to answer prompts together, as many at a time as the engine has `sequences`; options as of
        Session.generate."""
        return Answers(_scoria.Answers(self._inner, [_ids(ids) for ids in prompts], _options(options, members)))

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> npt.NDArray[np.int32]:
        return self._inner.tokenize(text.encode(), int(add_special) | int(parse_special) << 1)

    def detokenize(self, ids: Ids, *, special: bool = False) -> str:
        return self._inner.detokenize(_ids(ids), special).decode("utf-8", "replace")

    def chat(
        self,
        messages: Union[Sequence[Mapping[str, Any]], Mapping[str, Any]],
        *,
        generation_prompt: bool = True,
    ) -> npt.NDArray[np.int32]:
        """A conversation as the model's ids. A mapping may hold tools, documents and variables beside messages."""
        return self._inner.chat_tokens(json.dumps(messages), generation_prompt)

    def embed(self, text: str, *, pooling: Optional[str] = None, normalise: bool = True) -> npt.NDArray[np.float32]:
        """The embedding [hidden] of a text."""
        return self.session().embed(self.tokenize(text), pooling=pooling, normalise=normalise)

    def rank(self, query: str, documents: Iterable[str]) -> npt.NDArray[np.float64]:
        """How well each document answers the query, greater for better, by a model made for that (a cross-encoder)."""
        session = self.session()
        return np.array([session.rank(query, document) for document in documents])

    def evict(self) -> None:
        """Gives all device memory back to others. Sessions keep their tokens, and what they are asked next goes on
        as if nothing had been: weights are read and tokens computed again then, or before by `restore`."""
        self._inner.evict()

    def restore(self) -> None:
        self._inner.restore()

    def close(self) -> None:
        """Releases the device now rather than with the object. Its sessions must be closed or gone."""
        self._inner.close()


class Session:
    """One conversation: a sequence of tokens and what the model computed of it."""

    def __init__(self, engine: Engine) -> None:
        self._inner = _scoria.Session(engine._inner)

    def append(self, ids: Ids) -> None:
        self._inner.append(_ids(ids))

    def replace(self, ids: Ids) -> None:
        """Makes these ids the sequence, and keeps what was computed of what they share with the old one."""
        self._inner.replace(_ids(ids))

    def encode(self, ids: Ids) -> None:
        """Encoder-decoders: the encoder's input; append info["decoder_start"] next, and info["decoder_next"] if not -1."""
        self._inner.encode(_ids(ids))

    def truncate(self, length: int) -> None:
        self._inner.truncate(length)

    @property
    def tokens(self) -> npt.NDArray[np.int32]:
        return self._inner.tokens()

    def logits(self) -> npt.NDArray[np.float32]:
        """Logits [vocab] of the last token."""
        return self._inner.logits()

    def embed(self, ids: Ids, *, pooling: Optional[str] = None, normalise: bool = True) -> npt.NDArray[np.float32]:
        """The embedding [hidden] of these ids; the sequence is forgotten."""
        return self._inner.embed(_ids(ids), _one_of("pooling", pooling, _POOLINGS), normalise)

    def rank(self, query: str, document: str) -> float:
        """How well the document answers the query; the sequence is forgotten."""
        return self._inner.rank(query.encode(), document.encode())

    def generate(self, options: Optional[GenerateOptions] = None, **members: Any) -> Stream:
        """Starts to sample tokens; `members` are set in the options (max_tokens=100, temperature=0.7, seed=1,
        stop=["\\n"], json_schema="...", draft=engine). Errors come with the tokens."""
        return Stream(_scoria.Stream(self._inner, _options(options, members)))

    def cancel(self) -> None:
        """Stops the append, replace or generate that runs on the session. From any thread."""
        self._inner.cancel()

    def close(self) -> None:
        self._inner.close()
