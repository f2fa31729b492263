"""Streams a model's answer, twice: stream.py MODEL.gguf "a question" """
import asyncio
import sys

import scoria


def main(model: str, question: str) -> None:
    engine = scoria.Engine(model)
    prompt = engine.chat([{"role": "user", "content": question}])

    session = engine.session()
    session.append(prompt)
    for token in session.generate(max_tokens=32):
        print(token.text, end="", flush=True)
    print()

    async def again() -> None:
        session.replace(prompt)
        async for token in session.generate(max_tokens=32):
            print(token.text, end="", flush=True)
        print()

    asyncio.run(again())


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} MODEL.gguf QUESTION")
    main(*sys.argv[1:])
