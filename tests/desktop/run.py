#!/usr/bin/env python3
"""Drives scoria-desktop as a person would: keys and pictures, on an X server of its own, on lavapipe.

The same question and seed must get the answer of `scoria run`; stopping, a broken model, a lost device and
a model opened by typing its path must leave a window that works; so must queues of two families; frames must go
on while a prompt of 2,000 tokens is computed. Deep tier, some minutes:

    tests/desktop/run.py build/ci MODEL.gguf [--pictures FOLDER] [--results FILE.json]

Needs Xvfb, xdotool, xclip and ImageMagick (tools/setup.sh --desktop).
"""
import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

QUESTION = "What is the capital of France?"
LONG_ANSWER = "Tell a very long story about a lighthouse keeper."
LONG_PROMPT = "Summarise this log in one sentence. " + " ".join(
    f"On day {i} the harbour master wrote down that {i * 7 % 53} ships came in and {i * 3 % 29} went out with the "
    "tide." for i in range(75))
SAMPLING = {"temperature": 0.7, "seed": 7, "random_seed": False, "max_tokens": 100}
ATTENTION = "800x50+60+640"  # where it is drawn, of what the window's size leaves it
LOST_AT = 200  # waits: where each is for a token, after loading and a prompt, and within a long answer
PROMPT_TOKENS = 2000  # at least so many in LONG_PROMPT, with the template's
VALIDATION = "VK_LAYER_KHRONOS_validation"
VALIDATION_FILE = "/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json"
SLOWEST_RATIO = 4  # of the frames' 95th percentile with a prompt running to that without: two cores do both
LONGEST_FRAME = 2000  # milliseconds while a prompt runs


def wait_for(what, condition, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.1)
    raise AssertionError(f"[desktop] expected {what} within {seconds} s")


def expect(condition, what):
    if not condition:
        raise AssertionError(f"[desktop] expected {what}")


@contextlib.contextmanager
def x_server(size="1280x840x24"):
    reader, writer = os.pipe()
    server = subprocess.Popen(["Xvfb", "-displayfd", str(writer), "-screen", "0", size, "-nolisten", "tcp"],
                              pass_fds=[writer], stderr=subprocess.DEVNULL)
    os.close(writer)
    try:
        with os.fdopen(reader) as number:
            yield ":" + number.readline().strip()
    finally:
        server.terminate()
        server.wait()


class Window:
    """The program, its conversation as it logs it, and a keyboard."""

    def __init__(self, args, display, folder, model=None, layers=(), flags=(), settings=None, **variables):
        self.args, self.folder = args, pathlib.Path(folder)
        self.log, self.frames = self.folder / "chat.json", self.folder / "frames.json"
        self.log.unlink(missing_ok=True)
        self.config = self.folder / "scoria/desktop.json"
        self.config.parent.mkdir(exist_ok=True)
        if settings is not None:
            self.config.write_text(json.dumps(settings))
        self.environment = dict(os.environ, DISPLAY=display, SDL_VIDEODRIVER="x11", XDG_CONFIG_HOME=str(folder),
                                VK_DRIVER_FILES=args.driver, **variables)
        if layers:
            self.environment["VK_INSTANCE_LAYERS"] = ":".join(layers)
        self.output = open(self.folder / "output", "w+")
        command = [args.build / "scoria-desktop", "--log", self.log, "--frame-log", self.frames, "--scale", "1",
                   *(["-m", model] if model else []), *flags]
        self.process = subprocess.Popen(list(map(str, command)), env=self.environment, stdout=self.output,
                                        stderr=subprocess.STDOUT)

    def __enter__(self):
        ids = wait_for("a window", lambda: self.tool("search", "--onlyvisible", "--name", "^Scoria$"))
        self.tool("windowfocus", ids.split()[0])
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.picture("failed")
            print((self.folder / "output").read_text(), file=sys.stderr)
        self.process.kill()
        self.process.wait()
        self.output.close()

    def tool(self, *arguments):
        done = subprocess.run(["xdotool", *arguments], env=self.environment, capture_output=True, text=True)
        return done.stdout.strip()

    def keys(self, *keys):
        for key in keys:
            self.tool("key", key)
            time.sleep(0.4)

    def type(self, text):
        self.tool("type", "--delay", "15", text)
        time.sleep(0.5)

    def paste(self, text):
        subprocess.run(["xclip", "-selection", "clipboard"], env=self.environment, input=text, text=True, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # it stays, to be asked for the text
        time.sleep(1)
        self.keys("ctrl+v")
        time.sleep(2)  # a busy window takes it late, and a key that follows would come before it

    def picture(self, name):
        if not self.args.pictures:
            return
        self.args.pictures.mkdir(parents=True, exist_ok=True)
        subprocess.run(["import", "-window", "root", self.args.pictures / f"{name}.png"], env=self.environment)

    def colours(self, area):
        """How many there are in an area of the screen, "800x50+60+640"."""
        file = self.folder / "area.png"
        subprocess.run(["import", "-window", "root", "-crop", area, "+repage", file], env=self.environment, check=True)
        done = subprocess.run(["identify", "-format", "%k", file], capture_output=True, text=True, check=True)
        return int(done.stdout)

    def chat(self):
        expect(self.process.poll() is None, f"a running program, got exit code {self.process.returncode}")
        return json.loads(self.log.read_text()) if self.log.exists() else {"phase": "", "error": "", "messages": []}

    def wait(self, what, condition, seconds=120):
        return wait_for(what, lambda: (lambda chat: chat if condition(chat) else None)(self.chat()), seconds)

    def wait_phase(self, phase, seconds=120):
        return self.wait(f"the phase '{phase}'", lambda chat: chat["phase"] == phase, seconds)

    def ask(self, question, seconds=120):
        """The message that answers."""
        before = len(self.wait_phase("ready")["messages"])
        self.type(question)
        self.keys("Return")
        chat = self.wait("an answer", lambda chat: chat["phase"] == "ready" and len(chat["messages"]) > before + 1,
                         seconds)
        return chat["messages"][-1]

    def quit(self):
        self.keys("ctrl+q")
        expect(self.process.wait(60) == 0, f"exit code 0, got {self.process.returncode}")
        text = (self.folder / "output").read_text()
        expect("Validation Error" not in text, f"nothing from the validation layer, got: {text[:3000]}")


def answer_of_program(args, question):
    command = [args.build / "scoria", "run", "-m", args.model, "-p", question, "--temp", str(SAMPLING["temperature"]),
               "--seed", str(SAMPLING["seed"]), "-n", "100", "--json"]
    done = subprocess.run(list(map(str, command)), env=dict(os.environ, VK_DRIVER_FILES=args.driver),
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["text"]


def conversation(args, display, folder, settings):
    """Ask, ask on, an attention map, stop, begin anew, a broken model, the model again by its path, settings kept."""
    broken = pathlib.Path(folder) / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(60))
    with Window(args, display, folder, args.model, args.validation, settings=settings) as window:
        answer = window.ask(QUESTION)
        expect(answer["content"] == args.expected, f"the program's answer {args.expected!r}, got {answer['content']!r}")
        expect(window.ask("And of Italy?")["content"], "an answer to a second question")
        wait_for("an attention map in many colours", lambda: window.colours(ATTENTION) > 20, 10)
        window.picture("answer")
        window.type(LONG_ANSWER)
        window.keys("Return")
        window.wait_phase("answer", 240)
        time.sleep(3)
        window.keys("Escape")
        stopped = window.wait_phase("ready", 20)["messages"][-1]
        expect(stopped["stop"] == "stopped" and stopped["content"], f"a stopped answer, got {stopped}")
        window.keys("ctrl+n")
        window.wait("an empty conversation", lambda chat: not chat["messages"])
        wait_for("no attention map", lambda: window.colours(ATTENTION) == 1, 10)

        window.keys("ctrl+o", "ctrl+a")
        window.type(str(broken.parent))
        window.keys("Return")  # a folder: its list, and what is typed next is a name in it
        time.sleep(1)
        window.keys("ctrl+a")
        window.type(broken.name)
        window.picture("open")
        window.keys("Return")
        window.wait("an error that names the file", lambda chat: chat["phase"] == "empty" and str(broken) in chat["error"])
        time.sleep(0.5)
        window.picture("broken")
        window.keys("Escape", "ctrl+o", "Escape", "ctrl+o", "ctrl+a")
        window.type(str(args.model))
        window.keys("Return")
        window.keys("ctrl+n")  # what loads goes on
        answer = window.ask(QUESTION)
        expect(answer["content"] == args.expected, f"after a broken model {args.expected!r}, got {answer['content']!r}")
        window.keys("F2")
        window.picture("no_controls")
        window.quit()
    kept = json.loads(window.config.read_text())
    expect(kept["recent"][:1] == [str(args.model)] and not kept["show_controls"],
           f"the model among the recent ones and no controls, got {kept}")


def lost_device(args, display, folder, settings):
    """The device is lost in an answer: said in the window, opened again, and the model with it."""
    layer_folder = args.build / "tests/layer/manifest"
    with Window(args, display, folder, args.model, ["VK_LAYER_SCORIA_test"], settings=settings,
                VK_ADD_LAYER_PATH=str(layer_folder),
                SCORIA_LAYER_FAIL=f"vkWaitSemaphores:{LOST_AT}:VK_ERROR_DEVICE_LOST") as window:
        window.wait_phase("ready")
        window.type(LONG_ANSWER)
        window.keys("Return")
        # The error itself stands in the log until the device is opened again: for less than a tenth of a second.
        window.wait("a broken answer", lambda chat: chat["messages"] and chat["messages"][-1].get("stop") == "failed", 240)
        window.wait("the model again", lambda chat: chat["phase"] == "ready" and not chat["error"])
        time.sleep(1)
        window.picture("lost")
        window.keys("Return", "ctrl+n")
        window.wait("an empty conversation", lambda chat: not chat["messages"])
        answer = window.ask(QUESTION)
        expect(answer["content"] == args.expected, f"after a lost device {args.expected!r}, got {answer['content']!r}")
        window.quit()


def two_families(args, display, folder, settings):
    """Scoria on a queue of another family than the renderer's: the map that it copies is drawn by the renderer."""
    manifests = f"{pathlib.Path(VALIDATION_FILE).parent}:{args.build / 'tests/layer/manifest'}"
    with Window(args, display, folder, args.model, [*args.validation, "VK_LAYER_SCORIA_test"], settings=settings,
                VK_LAYER_PATH=manifests, SCORIA_LAYER_FAMILY="compute") as window:
        answer = window.ask(QUESTION)
        expect(answer["content"] == args.expected, f"with two families {args.expected!r}, got {answer['content']!r}")
        wait_for("an attention map in many colours", lambda: window.colours(ATTENTION) > 20, 10)
        window.quit()


def frames(args, display, folder, settings):
    """Frame times without and with a long prompt, from one run."""
    with Window(args, display, folder, args.model, settings=settings) as window:
        window.wait_phase("ready")
        time.sleep(8)
        window.paste(LONG_PROMPT)
        window.keys("Return")
        window.wait_phase("prompt")
        time.sleep(10)
        window.picture("prompt")
        answer = window.wait("an answer", lambda chat: chat["phase"] == "ready" and chat["messages"], 900)["messages"][-1]
        expect(answer.get("prompt_tokens", 0) >= PROMPT_TOKENS, f"{PROMPT_TOKENS} tokens of prompt, got {answer}")
        window.quit()
    log = json.loads(window.frames.read_text())
    idle, prompt = log["ready"], log["prompt"]
    ratio = prompt["interval_ms"]["p95"] / idle["interval_ms"]["p95"]
    print(f"[desktop] frames: 95th percentile {idle['interval_ms']['p95']:.1f} ms without, "
          f"{prompt['interval_ms']['p95']:.1f} ms with a prompt of {answer['prompt_tokens']} tokens "
          f"({answer['prompt_seconds']:.0f} s): ratio {ratio:.2f}; longest {prompt['interval_ms']['max']:.0f} ms")
    if args.results:
        args.results.write_text(json.dumps({"answer": answer, "frames": log, "ratio": ratio}, indent=1))
    expect(ratio < SLOWEST_RATIO, f"a ratio under {SLOWEST_RATIO}, got {ratio:.2f}")
    expect(prompt["interval_ms"]["max"] < LONGEST_FRAME, f"frames under {LONGEST_FRAME} ms")


STEPS = {  # by name: the function, and its settings
    "conversation": (conversation, {}),
    "lost_device": (lost_device, {"max_tokens": 1000, "submission_ms": 1000}),
    "two_families": (two_families, {}),
    "frames": (frames, {"max_tokens": 16}),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("model", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--driver", default="/usr/share/vulkan/icd.d/lvp_icd.json")
    parser.add_argument("--pictures", type=pathlib.Path)
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--only", choices=STEPS)
    args = parser.parse_args()
    args.validation = [VALIDATION] if pathlib.Path(VALIDATION_FILE).exists() else []
    if not args.validation:
        print(f"[desktop] without the validation layer: {VALIDATION_FILE} is not there")
    layer = args.build / "tests/layer/libVkLayer_scoria_test.so"  # without it, the loader only warns
    expect(layer.exists(), f"{layer} to be built")
    args.expected = answer_of_program(args, QUESTION)
    print(f"[desktop] expected: {args.expected}")
    for name, (step, settings) in STEPS.items():
        if args.only not in (None, name):
            continue
        start = time.monotonic()
        with x_server() as display, tempfile.TemporaryDirectory() as folder:
            step(args, display, folder, {**SAMPLING, "width": 1200, "height": 800, **settings})
        print(f"[desktop] {name} passed in {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
