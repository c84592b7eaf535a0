#!/usr/bin/env python3
"""What only the leader does, in a container beside zonelect-sidecar, which it polls."""

import os
import signal
import time
import urllib.error
import urllib.request

URL = os.environ.get("ZONELECT_URL", "http://127.0.0.1:4040")
# POLL, TIMEOUT and the longest step of the work together must be shorter than what the sidecar
# logs when it starts: 3.88 s by default.
POLL = float(os.environ.get("POLL", "1"))
TIMEOUT = 1.0

http = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy
ending = False


def end(*_):
    """Ends the program after the step that it does now."""
    global ending
    ending = True


def leader():
    """Returns the fencing token while this replica leads. No answer is a no."""
    try:
        with http.open(URL + "/leader", timeout=TIMEOUT) as answer:
            return int(answer.read())
    except (OSError, ValueError):
        return None


def stopped(token):
    """Says that the work of that term has stopped, so that the next leader need not wait."""
    print("stopped with token", token, flush=True)
    try:
        http.open(urllib.request.Request(f"{URL}/stopped?token={token}", method="POST"), timeout=TIMEOUT).close()
    except OSError:
        pass  # then the next leader waits


def step(token):
    """One step of the work. Whatever it writes to compares the token."""
    time.sleep(0.1)


def main():
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    token = None
    while not ending:
        asked = time.monotonic()  # before the request: the answer is as old as that
        now = leader()
        if token is not None and now != token:
            stopped(token)
        if now is not None and now != token:
            print("leading with token", now, flush=True)
        token = now
        while time.monotonic() < asked + POLL and not ending:
            if token is None:
                time.sleep(0.1)
            else:
                step(token)
    if token is not None:
        stopped(token)


if __name__ == "__main__":
    main()
