"""A proxy that breaks connections: between the client of Python and a real server, for tests of what is repeated."""

import dataclasses
import re
import socket
import threading


@dataclasses.dataclass
class Rule:
    """What becomes of the next requests whose first line has this text."""

    text: str
    times: int
    forwards: bool = True
    """Whether the server gets the request."""
    answer: bytes = b""
    """In place of the server's answer."""
    events: int | None = None
    """The connection is cut in the middle of this event of the answer, from 1."""
    length: int | None = None
    """It is cut behind so many bytes of the answer's body."""


def answer(status, body=b"", **headers):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Proxy:
    """Serves one request for each connection, and notes it."""

    def __init__(self, server):
        host, port = server.removeprefix("http://").split(":")
        self.server = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.rules = []
        self.lock = threading.Lock()
        self.seen = []
        threading.Thread(target=self.serve, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def breaks(self, text, times=1, **how):
        self.rules.append(Rule(text, times, **how))

    def requests(self, text):
        """Those whose first line has this text, as dictionaries of their headers; the line itself is `line`."""
        return [seen for seen in self.seen if text in seen["line"]]

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(connection,), daemon=True).start()

    def one(self, client):
        try:
            with client:
                request, head = self.read(client)
                rule = self.rule(head["line"])
                if rule and not rule.forwards:
                    client.sendall(rule.answer)
                    return
                with socket.create_connection(self.server) as server:
                    server.sendall(request)
                    self.pass_on(server, client, rule)
        except OSError:
            pass

    def read(self, client):
        """A whole request, asking for a connection of its own."""
        data = b""
        while b"\r\n\r\n" not in data:
            piece = client.recv(65536)
            if not piece:
                raise OSError("the client has gone")
            data += piece
        lines, body = data.split(b"\r\n\r\n", 1)
        line, *headers = lines.decode().split("\r\n")
        head = {"line": line, **{name.lower(): value.strip() for name, value in (header.split(":", 1) for header in headers)}}
        while len(body) < int(head.get("content-length", 0)):
            body += client.recv(65536)
        with self.lock:
            self.seen.append(head)
        kept = [header for header in headers if not header.lower().startswith("connection:")]
        return "\r\n".join([line, *kept, "Connection: close"]).encode() + b"\r\n\r\n" + body, head

    def rule(self, line):
        with self.lock:
            for rule in self.rules:
                if rule.text in line and rule.times:
                    rule.times -= 1
                    return rule
        return None

    def pass_on(self, server, client, rule):
        told = b""
        while True:
            piece = server.recv(65536)
            if not piece:
                break
            told += piece
            if rule is None:
                client.sendall(piece)
                continue
            end = cut(told, rule)
            if end is not None:
                # All but what was passed on before.
                client.sendall(told[len(told) - len(piece) : end])
                return
            if rule.events or rule.length:
                client.sendall(piece)
        if rule is not None and not (rule.events or rule.length):
            # The server has done it, and the client does not hear of it.
            client.sendall(rule.answer)


def cut(told, rule):
    """Where the answer is cut, once it is long enough."""
    if rule.events:
        begun = [found.end() for found in re.finditer(rb"\nevent: ", told)]
        return begun[rule.events - 1] if len(begun) >= rule.events else None
    begin = told.find(b"\r\n\r\n") + 4
    return begin + rule.length if rule.length and begin >= 4 and len(told) >= begin + rule.length else None
