"""The Python package against the tiny models of the fixtures: python -m unittest test_scoria (SCORIA_FIXTURES)."""
import asyncio
import gc
import os
import threading
import time
import unittest

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
        self.assertRaises(TypeError, session.generate, warmth=1)
        self.assertRaises(scoria.Error, next, session.generate())  # nothing appended

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

        session.replace(PROMPT)  # guesses change no answer
        guessed = session.generate(max_tokens=20, lookup=True, draft_tokens=3, **GREEDY)
        self.assertEqual([token.id for token in guessed if token.id >= 0], ids)

        async def again() -> list:
            session.replace(PROMPT)
            return [token.id async for token in session.generate(max_tokens=20, **GREEDY) if token.id >= 0]

        self.assertEqual(asyncio.run(again()), ids)

    def test_cancel(self) -> None:
        session = loaded().session()
        session.append(PROMPT)
        stream = session.generate(**GREEDY)
        next(stream)
        self.assertRaises(scoria.Error, session.append, PROMPT)  # busy
        stream.cancel()
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

    def test_lifetimes(self) -> None:
        steps = []
        engine = loaded(progress=lambda done, total: steps.append((done, total)))
        self.assertEqual(steps[-1][0], steps[-1][1])
        session = engine.session()
        self.assertRaises(scoria.Error, engine.close)  # has a session
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
