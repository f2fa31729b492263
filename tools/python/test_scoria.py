"""The Python package against the tiny models of the fixtures: python -m unittest test_scoria (SCORIA_FIXTURES)."""
import asyncio
import gc
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
import unittest
from typing import Any, Callable

import numpy as np
import scoria

FIXTURES = os.environ["SCORIA_FIXTURES"] + "/gguf/"
PROMPT = [3, 40, 114, 7, 19]
GREEDY = {"temperature": 0, "ignore_end": 1}


def loaded(name: str = "llama1", **options: object) -> scoria.Engine:
    return scoria.Engine(FIXTURES + name + ".gguf", **{"precision": "strict", **options})  # type: ignore[arg-type]


class Scoria(unittest.TestCase):
    def test_devices(self) -> None:
        self.assertTrue(any(device["chosen"] for device in scoria.devices()))

    def test_errors(self) -> None:
        with self.assertRaises(scoria.Error) as caught:
            scoria.Engine("/nowhere.gguf")
        self.assertEqual(caught.exception.status, "SCORIA_BAD_FILE")
        self.assertTrue(str(caught.exception).startswith("["))
        self.assertRaises(ValueError, loaded, precision="exact")
        session = loaded().session()
        self.assertRaises(scoria.Error, session.append, [1 << 20])
        for wrong in ([1.5], "12", [(1 << 32) + 5], [-1]):  # none becomes another id
            self.assertRaises(ValueError, session.append, wrong)
        self.assertRaises(ValueError, session.append, [[3, 4], [5, 6]])  # two sequences
        self.assertRaises(TypeError, session.generate, warmth=1)
        with self.assertRaisesRegex(TypeError, "max_tokens"):
            session.generate(max_tokens=-1)
        with self.assertRaisesRegex(TypeError, "context"):
            loaded(context=-1)
        session.append(PROMPT)  # what ends at a NUL in C is refused, not cut there
        for cut in ({"stop": ["a\0b"]}, {"grammar": 'root ::= "a"\0'}, {"json_schema": "{}\0"}):
            self.assertRaises(ValueError, session.generate, **cut)
        for cut in ({"device": "0\0"}, {"cache_folder": "a\0"}, {"adapters": [("a\0", 1)]}):
            self.assertRaises(ValueError, loaded, **cut)
        self.assertRaises(ValueError, scoria.Engine, FIXTURES + "llama1.gguf\0")
        self.assertRaises(UnicodeEncodeError, loaded().tokenize, "\ud800")
        closed = loaded()
        closed.close()
        self.assertRaises(scoria.Error, session.generate, draft=closed)
        session.truncate(0)
        self.assertRaises(scoria.Error, next, session.generate())  # nothing appended

    @unittest.skipUnless(sys.platform == "linux", "elsewhere the names of files are text")
    def test_names_that_are_no_text(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, os.fsdecode(b"caf\xe9.gguf"))
            with self.assertRaisesRegex(scoria.Error, "caf\ufffd.gguf"):
                scoria.Engine(path)
            os.symlink(FIXTURES + "llama1.gguf", path)
            self.assertGreater(scoria.Engine(path, cache_folder=os.path.dirname(path)).info["vocab"], 0)
            with self.assertRaisesRegex(scoria.Error, "no\ufffd"):
                scoria.Engine(path, adapters=[(os.fsdecode(b"no\xe9"), 1.0)])

    def test_arrays(self) -> None:
        engine = loaded()
        ids = engine.tokenize("a b", add_special=False)
        self.assertEqual(ids.dtype, np.int32)
        self.assertIn("a b", engine.detokenize(ids))
        session = engine.session()
        session.append(np.array(PROMPT, np.int64))
        logits = session.logits()
        self.assertEqual((logits.dtype, logits.shape), (np.dtype(np.float32), (engine.info["vocab"],)))
        first = next(session.generate(max_tokens=1, **GREEDY)).id
        self.assertEqual(first, int(logits.argmax()))
        np.testing.assert_array_equal(session.tokens, [*PROMPT, first])
        self.assertAlmostEqual(float(np.linalg.norm(loaded("bert").session().embed(PROMPT))), 1, places=5)

    def test_iterators(self) -> None:
        session = loaded().session()
        session.append(PROMPT)
        stream = session.generate(max_tokens=20, **GREEDY)
        ids = [token.id for token in stream if token.id >= 0]
        self.assertEqual((len(ids), stream.stop_reason), (20, "token_limit"))

        options = scoria.GenerateOptions()
        options.max_tokens = 7
        session.replace(PROMPT)
        told = [token for token in session.generate(options, max_tokens=3, **GREEDY) if token.id >= 0]
        self.assertEqual(len(told), 3)
        self.assertEqual(options.max_tokens, 7)

        session.replace(PROMPT)  # guesses change no answer
        guessed = session.generate(max_tokens=20, lookup=True, draft_tokens=3, **GREEDY)
        self.assertEqual([token.id for token in guessed if token.id >= 0], ids)
        for _ in range(2):  # an engine that nobody else holds
            session.replace(PROMPT)
            guessed = session.generate(max_tokens=20, draft=loaded(), draft_tokens=3, **GREEDY)
            self.assertEqual([token.id for token in guessed if token.id >= 0], ids)
        session.replace(PROMPT)
        with self.assertRaisesRegex(scoria.Error, "expected a decoder"):
            next(session.generate(draft=loaded("bert")))
        with self.assertRaisesRegex(scoria.Error, "a layer that guesses further tokens"):
            loaded(layer_ahead=True)

        async def again() -> list:
            session.replace(PROMPT)
            return [token.id async for token in session.generate(max_tokens=20, **GREEDY) if token.id >= 0]

        self.assertEqual(asyncio.run(again()), ids)

    def test_many(self) -> None:
        engine = loaded(sequences=3, deterministic=True)
        self.assertGreater(engine.memory["shared"], engine.info["context"])
        prompts = [[3 + (7 * i + j) % 200 for j in range(1 + 9 * i)] for i in range(7)]  # more than sequences
        options = {"max_tokens": 12, "temperature": 0.8, "seed": 5, "ignore_end": 1}
        expected, session = [], engine.session()
        for prompt in prompts:
            session.replace(prompt)
            expected.append("".join(token.text for token in session.generate(**options)))
        texts = [""] * len(prompts)
        order, answers = [], engine.generate_many(prompts, **options)
        for index, token in answers:
            texts[index] += token.text
            order.append(index)
        self.assertEqual(texts, expected)
        self.assertNotEqual(order, sorted(order))  # together
        self.assertEqual(answers.stop_reasons, ["token_limit"] * len(prompts))

        async def again() -> None:
            texts = [""] * len(prompts)
            async for index, token in engine.generate_many(map(np.array, prompts), **options):
                texts[index] += token.text
            self.assertEqual(texts, expected)

        asyncio.run(again())
        self.assertEqual(list(engine.generate_many([])), [])
        # One that fails leaves the others alone.
        answers, texts = engine.generate_many([prompts[0], [1 << 20], [], prompts[3]], **options), [""] * 4
        with self.assertRaisesRegex(scoria.Error, "^answer 1: "):
            for index, token in answers:
                texts[index] += token.text
        self.assertEqual(texts, [expected[0], "", "", expected[3]])
        self.assertEqual(answers.stop_reasons, ["token_limit", "failed", "failed", "token_limit"])
        del answers
        # Stopped by the reader, by a signal, and by nobody who reads any more.
        answers = engine.generate_many(prompts, **GREEDY)
        next(answers)
        answers.cancel()
        self.assertLess(sum(1 for _ in answers), 200)
        self.assertIn("cancelled", answers.stop_reasons or [])
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            with self.assertRaises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.02)
                while True:
                    list(engine.generate_many(prompts, **GREEDY))
        finally:
            signal.signal(signal.SIGALRM, before)
        next(engine.generate_many(prompts, **GREEDY))
        del answers
        session.close()
        gc.collect()
        engine.close()  # nobody uses it

    def test_cancel(self) -> None:
        session = loaded().session()
        session.append(PROMPT)
        stream = session.generate(**GREEDY)
        next(stream)
        self.assertRaises(scoria.Error, session.append, PROMPT)  # busy
        stream.cancel()
        self.assertLess(sum(1 for _ in stream), 100)
        self.assertEqual(stream.stop_reason, "cancelled")
        for _ in range(20):  # at once: its thread need not be in the library yet
            session.replace(PROMPT)
            stream = session.generate(**GREEDY)
            self.assertRaises(scoria.Error, session.append, PROMPT)
            self.assertRaises(scoria.Error, session.close)
            session.cancel()
            self.assertLess(sum(1 for _ in stream), 100)
            self.assertEqual(stream.stop_reason, "cancelled")
        session.replace(PROMPT)
        abandoned = session.generate(**GREEDY)
        next(abandoned)
        del abandoned
        session.replace(PROMPT)  # free again

        async def timed() -> None:
            async for _ in session.generate(**GREEDY):
                await asyncio.sleep(0.001)

        with self.assertRaises(asyncio.TimeoutError):
            asyncio.run(asyncio.wait_for(timed(), 0.05))

    def test_interrupt(self) -> None:
        """Ctrl-C while a token is waited for ends what makes it, and all can go on."""
        engine = loaded(prompt_chunk=1)  # a first token of a batch takes its time
        session = engine.session()
        long = [3 + i % 100 for i in range(100)]

        def interrupted(start: Callable[[], Any]) -> Any:
            pieces = start()
            while True:
                threading.Timer(0.06, os.kill, (os.getpid(), signal.SIGINT)).start()
                try:
                    while True:
                        list(pieces)
                        pieces = start()
                except KeyboardInterrupt as error:
                    if "_next" in [frame.name for frame in traceback.extract_tb(error.__traceback__)]:
                        return pieces
                    pieces.cancel()  # it came elsewhere in the loop

        def stream() -> scoria.Stream:
            session.replace(PROMPT)
            return session.generate(**GREEDY)

        held = interrupted(stream)
        session.replace(PROMPT)  # free, though the stream is still held
        session.close()
        more = interrupted(lambda: engine.generate_many([long] * 9, **GREEDY))
        engine.close()
        self.assertLess(sum(1 for _ in held) + sum(1 for _ in more), 200)

    def test_gil_is_free(self) -> None:
        ticks, stop = [0], threading.Event()

        def tick() -> None:
            while not stop.is_set():
                ticks[0] += 1
                time.sleep(0.0005)

        thread = threading.Thread(target=tick)
        session = loaded().session()
        thread.start()
        try:
            before = ticks[0]
            session.append([3 + i % 200 for i in range(180)])
            self.assertGreater(ticks[0] - before, 3)
        finally:
            stop.set()
            thread.join()

    def test_evicted(self) -> None:
        engine = loaded()
        session = engine.session()
        session.append(PROMPT)
        before = session.logits()
        engine.evict()
        self.assertEqual(engine.memory["in_use"], 0)
        engine.restore()
        self.assertGreater(engine.memory["in_use"], 0)
        engine.evict()
        np.testing.assert_array_equal(session.logits(), before)
        stream = session.generate(max_tokens=100, **GREEDY)
        next(stream)
        self.assertRaises(scoria.Error, engine.evict)  # it computes
        stream.cancel()

    def test_lifetimes(self) -> None:
        steps = []
        engine = loaded(progress=lambda done, total: steps.append((done, total)))
        self.assertEqual(steps[-1][0], steps[-1][1])
        session = engine.session()
        self.assertRaises(scoria.Error, engine.close)  # has a session
        stream = session.generate()
        self.assertRaises(scoria.Error, next, stream)
        session.append(PROMPT)
        stream = session.generate(**GREEDY)
        next(stream)
        self.assertRaises(scoria.Error, session.close)  # in use
        stream.cancel()
        session.close()
        self.assertEqual(engine.info["layers"] > 0, True)
        engine.close()
        self.assertRaises(scoria.Error, lambda: engine.info)
        engine = loaded()
        session = engine.session()
        del engine
        gc.collect()
        session.append(PROMPT)

        def broken(done: int, total: int) -> None:
            raise KeyError("mine")

        self.assertRaises(KeyError, loaded, progress=broken)
        with self.assertRaises(scoria.Error) as caught:
            loaded(progress=lambda done, total: False)
        self.assertEqual(caught.exception.status, "SCORIA_CANCELLED")
        self.assertGreater(loaded().memory["in_use"], 0)


if __name__ == "__main__":
    unittest.main()
