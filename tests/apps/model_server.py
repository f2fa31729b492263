"""A model server that misbehaves by path, for the tests of `scoria pull`.

usage: model_server.py FOLDER      prints "PORT PID", then serves FOLDER/<file> under
  /ok/<file>       whole, ranges, an ETag; 400 for a range beyond the beginning without If-Range, as everywhere here
  /drop/<file>     the same, but every piece is lost after a third of it when it is first asked for
  /pairs/<file>    short pieces alone, and the second is not answered before a third is asked for
  /forget/<file>   drops once; after that it ignores ranges and sends all
  /change/<file>   drops once; after that it has another ETag, so ranges are refused
  /dated/<file>    Last-Modified beside a weak ETag, which If-Range must not have
  /bare/<file>     neither, so that no If-Range is expected; the first piece alone, then status 410
  /gone/<file>     the first piece alone, then status 410
  /rest/<file>     all but the first piece
  /grow/<file>     all pieces but the first are of a longer file
  /short/<file>    promises more bytes than it has
  /corrupt/<file>  one byte is wrong
  /gated/<file>    only with "Authorization: Bearer secret"
  /away/<file>     status 503
and as a hub: /api/models/org/<repo>/revision/main lists FOLDER/<repo>, /org/<repo>/resolve/<commit>/<file> serves it.
A repository called liar lists wrong checksums; one called climber lists a path that leaves its folder; null has no
commit; busy answers 429 at first.
"""
import hashlib
import http.server
import itertools
import json
import os
import pathlib
import re
import sys
import threading
import urllib.parse

folder = pathlib.Path(sys.argv[1])
seen = set()
pieces_asked = itertools.count()  # after the first
third_asked = threading.Event()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)

    def cut(self, status, body, after, **headers):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body[:after])
        self.close_connection = True

    def file(self, mode, path):
        body = path.read_bytes()
        etag = f'"{hashlib.sha256(body).hexdigest()}"'
        first = mode + path.name not in seen
        seen.add(mode + path.name)
        if mode == "change" and not first:
            etag = '"2"'
        validator = "Mon, 02 Mar 2026 10:00:00 GMT" if mode == "dated" else etag
        wanted = re.match(r"bytes=(\d+)-(\d*)$", self.headers.get("Range", ""))
        asked = int(wanted[1]) if wanted else 0
        if_range = self.headers.get("If-Range", "")
        if asked > 0 and mode != "bare" and not if_range.endswith(validator[-1]):
            return self.answer(400)
        if asked > 0 and mode in ("gone", "bare") or asked == 0 and mode == "rest":
            return self.answer(410)
        same = if_range in ("", validator)
        start = asked if same and mode != "forget" else 0
        if mode == "short":
            return self.cut(200, body + b"more", len(body), ETag=etag)
        if start >= len(body):
            return self.answer(416, Content_Range=f"bytes */{len(body)}")
        ranged = wanted and same and mode != "forget"
        end = min(int(wanted[2]) + 1, len(body)) if ranged and wanted[2] else len(body)
        part = body[start:end]
        headers = {"dated": {"ETag": 'W/"1"', "Last_Modified": validator}, "bare": {}}.get(mode, {"ETag": etag})
        if ranged:
            total = len(body) + (mode == "grow" and start > 0)
            headers["Content_Range"] = f"bytes {start}-{end - 1}/{total}"
        status = 206 if ranged else 200
        if mode == "pairs":
            if len(part) > 100_000:
                return self.answer(400)
            if start > 0:
                if next(pieces_asked) > 0:
                    third_asked.set()
                if not third_asked.wait(60):
                    return self.answer(503)
        if mode == "drop" and (mode, start) not in seen and len(part) > 50_000:
            seen.add((mode, start))
            return self.cut(status, part, len(part) // 3 + 1, **headers)
        if first and mode in ("forget", "change"):
            return self.cut(status, part, len(part) // 3 + 1, **headers)
        if mode == "corrupt":
            part = part[:-1] + bytes([part[-1] ^ 1])
        return self.answer(status, part, **headers)

    def listing(self, repository):
        siblings = []
        for path in sorted((folder / repository).rglob("*")):
            if path.is_file():
                digest = hashlib.sha256(b"lie" if repository == "liar" else path.read_bytes()).hexdigest()
                siblings.append({"rfilename": str(path.relative_to(folder / repository)),
                                 "size": path.stat().st_size, "lfs": {"sha256": digest}})
        if repository == "climber":
            siblings.append({"rfilename": "../../escaped.gguf", "size": 1})
        if repository == "busy" and repository not in seen:
            seen.add(repository)
            return self.answer(429)
        sha = None if repository == "null" else "abc123"
        self.answer(200, json.dumps({"sha": sha, "siblings": siblings}).encode())

    def do_GET(self):
        path = [urllib.parse.unquote(part) for part in self.path.split("?")[0].strip("/").split("/")]
        if path[:3] == ["api", "models", "org"] and path[4:] in (["revision", "main"], ["revision", "refs/pr/1"]):
            return self.listing(path[3])
        if path[0] == "org" and path[2:4] == ["resolve", "abc123"]:
            return self.file("ok", folder / path[1] / "/".join(path[4:]))
        mode, target = path[0], folder / path[-1]
        if mode == "away":
            return self.answer(503)
        if not target.is_file():
            return self.answer(404)
        if mode == "gated" and self.headers.get("Authorization") != "Bearer secret":
            return self.answer(401)
        self.file(mode, target)


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *arguments):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a client may end a request early
            super().handle_error(*arguments)


server = Server(("127.0.0.1", 0), Handler)
print(server.server_address[1], os.getpid(), flush=True)
server.serve_forever()
